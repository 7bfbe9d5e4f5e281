//! A log of a job, as bytes: without colours, cut into jobs, with line numbers.

use std::borrow::Cow;

/// What one job wrote.
#[derive(Debug, Clone, Copy)]
pub struct Section<'a> {
    /// The job's name, where the log tells it.
    pub job: Option<&'a str>,
    /// Its lines.
    pub bytes: &'a [u8],
    /// The number of its first line in the file, from 1.
    pub first_line: usize,
}

/// `bytes` without escape sequences of terminals.
pub fn without_colors(bytes: &[u8]) -> Cow<'_, [u8]> {
    const ESCAPE: u8 = 0x1b;
    let Some(first) = memchr::memchr(ESCAPE, bytes) else { return Cow::Borrowed(bytes) };
    let mut clean = Vec::with_capacity(bytes.len());
    clean.extend_from_slice(&bytes[..first]);
    let mut rest = &bytes[first..];
    while let Some(after) = rest.strip_prefix(&[ESCAPE]) {
        rest = match after.split_first() {
            // A control sequence ends with a byte from `@` to `~`; it never spans lines.
            Some((b'[', sequence)) => {
                let end = sequence.iter().position(|b| matches!(b, b'@'..=b'~' | b'\n'));
                let end =
                    end.map_or(sequence.len(), |end| end + usize::from(sequence[end] != b'\n'));
                &sequence[end..]
            }
            Some((b'\n', _)) | None => after,
            Some((_, after)) => after,
        };
        let next = memchr::memchr(ESCAPE, rest).unwrap_or(rest.len());
        clean.extend_from_slice(&rest[..next]);
        rest = &rest[next..];
    }
    Cow::Owned(clean)
}

/// The jobs of a log. What `gh run view --log` writes has every line begin with the names of its
/// job and step; any other log is one job's.
pub fn sections(bytes: &[u8]) -> Vec<Section<'_>> {
    if job_of(first_line(bytes)).is_none() {
        return vec![Section { job: None, bytes, first_line: 1 }];
    }
    let mut sections: Vec<Section<'_>> = Vec::new();
    let (mut start, mut number, mut first) = (0, 1, 1);
    let mut job = job_of(first_line(bytes));
    let mut position = 0;
    while position < bytes.len() {
        let line = first_line(&bytes[position..]);
        let other = job_of(line).filter(|other| Some(*other) != job);
        if other.is_some() {
            sections.push(Section { job, bytes: &bytes[start..position], first_line: first });
            (start, first, job) = (position, number, other);
        }
        position += line.len() + 1;
        number += 1;
    }
    sections.push(Section { job, bytes: &bytes[start..], first_line: first });
    sections
}

/// The job's name, where a log of GitHub tells it in its first lines.
pub fn job_name(bytes: &[u8]) -> Option<String> {
    const TEXT: &[u8] = b"Complete job name: ";
    let head = &bytes[..bytes.len().min(1 << 16)];
    let start = memchr::memmem::find(head, TEXT)? + TEXT.len();
    Some(String::from_utf8_lossy(first_line(&bytes[start..])).trim().to_owned())
}

fn first_line(bytes: &[u8]) -> &[u8] {
    &bytes[..memchr::memchr(b'\n', bytes).unwrap_or(bytes.len())]
}

/// The job of a line `job<TAB>step<TAB>time text`.
fn job_of(line: &[u8]) -> Option<&str> {
    let (job, rest) = line.split_at(memchr::memchr(b'\t', line)?);
    let rest = &rest[1..];
    let text = &rest[memchr::memchr(b'\t', rest)? + 1..];
    let text = text.strip_prefix(&[0xef, 0xbb, 0xbf]).unwrap_or(text);
    time_stamp(text).and_then(|_| str::from_utf8(job).ok())
}

/// The length of a time stamp with which `text` begins, as `2026-11-30T07:24:03.1234567Z `.
fn time_stamp(text: &[u8]) -> Option<usize> {
    let digits = |range: std::ops::Range<usize>| {
        text.get(range).is_some_and(|part| part.iter().all(u8::is_ascii_digit))
    };
    let shape = digits(0..4) && text.get(4) == Some(&b'-') && text.get(10) == Some(&b'T');
    if !(shape && digits(11..13) && text.get(13) == Some(&b':')) {
        return None;
    }
    let end = text.iter().take(40).position(|&b| b == b'Z')? + 1;
    // GitLab adds which stream the line is from.
    let stream = text.get(end..end + 5).is_some_and(|s| {
        s[0] == b' '
            && s[1].is_ascii_digit()
            && matches!(s[3], b'O' | b'E')
            && matches!(s[4], b' ' | b'+')
    });
    let end = if stream { end + 4 } else { end };
    Some(if text.get(end).is_some_and(|b| matches!(b, b' ' | b'+')) { end + 1 } else { end })
}

impl<'a> Section<'a> {
    /// The line that `position` lies in: where it starts and where it ends.
    pub fn line_around(&self, position: usize) -> (usize, usize) {
        let start = memchr::memrchr(b'\n', &self.bytes[..position]).map_or(0, |at| at + 1);
        let rest = &self.bytes[position..];
        (start, position + memchr::memchr(b'\n', rest).unwrap_or(rest.len()))
    }

    /// The text of the line from `start` to `end`, without names, time and what a carriage return
    /// has overwritten.
    pub fn text(&self, start: usize, end: usize) -> Cow<'a, str> {
        let mut line = &self.bytes[start..end];
        if self.job.is_some_and(|job| line.starts_with(job.as_bytes())) {
            let mut tabs = memchr::memchr_iter(b'\t', line);
            if let (Some(_), Some(second)) = (tabs.next(), tabs.next()) {
                line = &line[second + 1..];
            }
        }
        line = line.strip_prefix(&[0xef, 0xbb, 0xbf]).unwrap_or(line);
        line = &line[time_stamp(line).unwrap_or(0)..];
        line = line.strip_suffix(b"\r").unwrap_or(line);
        line = memchr::memrchr(b'\r', line).map_or(line, |at| &line[at + 1..]);
        String::from_utf8_lossy(line)
    }

    /// How many lines lie between two positions.
    pub fn lines_between(&self, start: usize, end: usize) -> usize {
        memchr::memchr_iter(b'\n', &self.bytes[start..end]).count()
    }

    /// The lines after `end`, with their texts.
    pub fn after(&self, end: usize) -> impl Iterator<Item = Cow<'a, str>> + use<'a> {
        let section = *self;
        let mut position = end + 1;
        std::iter::from_fn(move || {
            (position < section.bytes.len()).then(|| {
                let (start, end) = section.line_around(position);
                position = end + 1;
                section.text(start, end)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(text: &str) -> String {
        String::from_utf8(without_colors(text.as_bytes()).into_owned()).unwrap()
    }

    #[test]
    fn colours_go_and_everything_else_stays() {
        assert_eq!(clean("plain\n"), "plain\n");
        assert_eq!(clean("\u{1b}[1m\u{1b}[38;5;9merror\u{1b}[0m: x\n"), "error: x\n");
        assert_eq!(clean("a\u{1b}[31"), "a");
        assert_eq!(clean("a\u{1b}[3\nb\u{1b}\nc\u{1b}"), "a\nb\nc");
        assert_eq!(clean("\u{1b}(Bx\u{1b}[Ky"), "Bxy");
    }

    #[test]
    fn lines_lose_their_time_and_what_was_overwritten() {
        let text = |line: &str| {
            let section = Section { job: None, bytes: line.as_bytes(), first_line: 1 };
            section.text(0, line.len()).into_owned()
        };
        assert_eq!(text("2026-11-30T07:24:03.1234567Z ##[error]no"), "##[error]no");
        assert_eq!(text("2026-11-30T07:24:03.123456Z 00O error: no"), "error: no");
        assert_eq!(text("2026-11-30T07:24:03.123456Z 01E+error: no"), "error: no");
        assert_eq!(text("\u{feff}2026-11-30T07:24:03Z x"), "x");
        assert_eq!(text("10%\r20%\rdone\r"), "done");
        assert_eq!(text("2026-11-30 is a day"), "2026-11-30 is a day");
    }

    #[test]
    fn logs_of_several_jobs_are_cut() {
        let log = "test/x\tBuild\t\u{feff}2026-11-30T07:24:03.1Z one\n\
                   test/x\tTest\t2026-11-30T07:24:04.1Z two\n\
                   lint\tFormat\t2026-11-30T07:24:05.1Z three\n";
        let sections = sections(log.as_bytes());
        let shown: Vec<_> = sections.iter().map(|s| (s.job, s.first_line)).collect();
        assert_eq!(shown, [(Some("test/x"), 1), (Some("lint"), 3)]);
        assert_eq!(sections[0].text(0, sections[0].line_around(3).1), "one");
        assert_eq!(sections[0].after(sections[0].line_around(0).1).next().unwrap(), "two");
        assert_eq!(sections[1].after(sections[1].line_around(0).1).next(), None);
        assert_eq!(super::sections(b"a\tb\tc\n").len(), 1);
        assert_eq!(super::sections(b"")[0].job, None);
    }
}
