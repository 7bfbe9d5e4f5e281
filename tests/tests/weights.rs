//! Weights are used where they lie: loading a model with 1 GiB of them copies nothing.
//!
//! One test function, so that nothing else runs in the process whose memory it watches.

use etmetal::runner::{HostTensor, LoadMode, Value};
use etmetal_tests::fixture::runtime;
use etmetal_tests::memory::anonymous_kib;
use etmetal_tests::model::{Model, weights_key};
use etmetal_tests::pte::Blob;

const WEIGHT_BYTES: u64 = 1 << 30;
/// Anonymous memory that loading and running may add.
const ALLOWED_KIB: u64 = 64 * 1024;

#[test]
fn a_gibibyte_of_weights_is_not_copied() {
    let dir = tempfile::tempdir().unwrap();
    let library = Model { weight_bytes: WEIGHT_BYTES, ..Model::default() }.compile(dir.path());
    let weights = Blob::Sparse { len: WEIGHT_BYTES, head: 1.5f32.to_le_bytes().to_vec() };
    let key = weights_key(&weights);
    let path = dir.path().join("model.pte");
    let blobs = vec![library.named(), (key.clone(), weights)];
    library.program(&key, blobs).write(&path).unwrap();

    let runtime = runtime();
    let before = anonymous_kib();
    let module = runtime.load(&path, &[], LoadMode::default()).unwrap();
    let input = HostTensor::from_elements(vec![4], [1.0f32, 2.0, 3.0, 4.0]).unwrap();
    let outputs = module.execute("forward", &[Value::Tensor(input)]).unwrap();
    let grown = anonymous_kib().saturating_sub(before);

    let Value::Tensor(output) = &outputs[0] else { panic!("the output is no tensor") };
    // The last weights are zeros of the sparse file.
    assert_eq!(output.elements::<f32>().unwrap(), [2.0, 4.0, 6.0, 8.0]);
    assert!(grown < ALLOWED_KIB, "anonymous memory grew by {grown} KiB");
}
