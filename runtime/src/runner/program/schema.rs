//! The tables of ExecuTorch's `program.fbs` that are read here.
//!
//! Each table is verified as a whole before any of it is read (see `root`), which is what makes
//! its accessors safe on damaged files.

use flatbuffers::{
    Follow, ForwardsUOffset, InvalidFlatbuffer, Table, VOffsetT, Vector, Verifiable, Verifier,
    VerifierOptions,
};

/// A vector of tables or strings.
pub(super) type Tables<'a, T> = Vector<'a, ForwardsUOffset<T>>;

/// Where a table's vtable tells the place of its field number `slot`.
const fn voffset(slot: VOffsetT) -> VOffsetT {
    4 + 2 * slot
}

/// Declares a table: `name: type = slot or default`. `scalars` are stored in the table;
/// `offsets` elsewhere, and may be absent; a `union` is known by the number of its variant.
macro_rules! table {
    (
        $name:ident {
            $(scalars { $($scalar:ident: $sty:ty = $sslot:literal, $default:literal;)* })?
            $(offsets { $($offset:ident: $oty:ty = $oslot:literal;)* })?
            $(union $union:ident = $kslot:literal, $uslot:literal
                { $($variant:ident: $vty:ident = $vnum:literal;)* })?
        }
    ) => {
        #[derive(Clone, Copy)]
        pub(super) struct $name<'a>(Table<'a>);

        impl<'a> Follow<'a> for $name<'a> {
            type Inner = Self;
            unsafe fn follow(buffer: &'a [u8], place: usize) -> Self {
                // SAFETY: the caller promises a verified table at `place`.
                Self(unsafe { Table::new(buffer, place) })
            }
        }

        impl<'a> Verifiable for $name<'a> {
            fn run_verifier(
                verifier: &mut Verifier<'_, '_>,
                place: usize,
            ) -> Result<(), InvalidFlatbuffer> {
                let table = verifier.visit_table(place)?;
                $($(let table = table.visit_field::<$sty>(
                    stringify!($scalar), voffset($sslot), false)?;)*)?
                $($(let table = table.visit_field::<ForwardsUOffset<$oty>>(
                    stringify!($offset), voffset($oslot), false)?;)*)?
                $(let table = table.visit_union::<u8, _>(
                    concat!(stringify!($union), "_type"), voffset($kslot),
                    stringify!($union), voffset($uslot), false,
                    |number, verifier, place| match number {
                        $($vnum => verifier.verify_union_variant::<ForwardsUOffset<$vty<'_>>>(
                            stringify!($vty), place),)*
                        _ => Ok(()),
                    })?;)?
                table.finish();
                Ok(())
            }
        }

        impl<'a> $name<'a> {
            $($(pub(super) fn $scalar(self) -> $sty {
                // SAFETY: the slot was verified to hold this type, or to be absent.
                unsafe { self.0.get::<$sty>(voffset($sslot), Some($default)) }.unwrap_or($default)
            })*)?
            $($(pub(super) fn $offset(
                self,
            ) -> Option<<ForwardsUOffset<$oty> as Follow<'a>>::Inner> {
                // SAFETY: as above.
                unsafe { self.0.get::<ForwardsUOffset<$oty>>(voffset($oslot), None) }
            })*)?
            $(
                /// The number of the union's variant; 0 for none.
                pub(super) fn $union(self) -> u8 {
                    // SAFETY: as above.
                    unsafe { self.0.get::<u8>(voffset($kslot), Some(0)) }.unwrap_or(0)
                }
                $(pub(super) fn $variant(self) -> Option<$vty<'a>> {
                    if self.$union() != $vnum {
                        return None;
                    }
                    // SAFETY: the value of this variant was verified to be of this type.
                    unsafe { self.0.get::<ForwardsUOffset<$vty<'a>>>(voffset($uslot), None) }
                })*
            )?
        }
    };
}

table!(Program {
    scalars { version: u32 = 0, 0; }
    offsets {
        execution_plan: Tables<'a, ExecutionPlan<'a>> = 1;
        backend_delegate_data: Tables<'a, InlineData<'a>> = 3;
        segments: Tables<'a, DataSegment<'a>> = 4;
        constant_segment: SubsegmentOffsets<'a> = 5;
        named_data: Tables<'a, NamedData<'a>> = 7;
    }
});

table!(ExecutionPlan {
    offsets {
        name: &'a str = 0;
        values: Tables<'a, EValue<'a>> = 2;
        inputs: Vector<'a, i32> = 3;
        outputs: Vector<'a, i32> = 4;
        chains: Tables<'a, Chain<'a>> = 5;
        operators: Tables<'a, Operator<'a>> = 6;
        delegates: Tables<'a, BackendDelegate<'a>> = 7;
        non_const_buffer_sizes: Vector<'a, i64> = 8;
    }
});

table!(EValue {
    union kind = 0, 1 {
        int: Int = 2;
        boolean: Bool = 3;
        double: Double = 4;
        tensor: Tensor = 5;
    }
});

table!(Int { scalars { int_val: i64 = 0, 0; } });
table!(Bool { scalars { bool_val: u8 = 0, 0; } });
table!(Double { scalars { double_val: f64 = 0, 0.0; } });

table!(Tensor {
    scalars {
        scalar_type: i8 = 0, 0;
        shape_dynamism: i8 = 8, 0;
    }
    offsets {
        sizes: Vector<'a, i32> = 2;
        dim_order: Vector<'a, u8> = 3;
    }
});

table!(Chain { offsets { instructions: Tables<'a, Instruction<'a>> = 2; } });

table!(Instruction {
    union call = 0, 1 {
        kernel_call: KernelCall = 1;
        delegate_call: DelegateCall = 2;
    }
});

table!(KernelCall { scalars { op_index: i32 = 0, 0; } });

table!(DelegateCall {
    scalars { delegate_index: i32 = 0, 0; }
    offsets { args: Vector<'a, i32> = 1; }
});

table!(Operator {
    offsets {
        name: &'a str = 0;
        overload: &'a str = 1;
    }
});

table!(BackendDelegate {
    offsets {
        id: &'a str = 0;
        processed: DataReference<'a> = 1;
        compile_specs: Tables<'a, CompileSpec<'a>> = 2;
    }
});

table!(DataReference {
    scalars {
        location: i8 = 0, 0;
        index: u32 = 1, 0;
    }
});

table!(CompileSpec {
    offsets {
        key: &'a str = 0;
        value: Vector<'a, u8> = 1;
    }
});

table!(InlineData { offsets { data: Vector<'a, u8> = 0; } });

table!(DataSegment {
    scalars {
        offset: u64 = 0, 0;
        size: u64 = 1, 0;
    }
});

table!(SubsegmentOffsets {
    scalars { segment_index: u32 = 0, 0; }
    offsets { offsets: Vector<'a, u64> = 1; }
});

table!(NamedData {
    scalars { segment_index: u32 = 1, 0; }
    offsets { key: &'a str = 0; }
});

/// The verified root of a program's flatbuffer.
pub(super) fn root(bytes: &[u8]) -> Result<Program<'_>, InvalidFlatbuffer> {
    // A table takes at least 4 bytes: more than that in a damaged file are repetitions.
    let options = VerifierOptions {
        max_tables: bytes.len() / 4,
        max_apparent_size: bytes.len().saturating_mul(8),
        ..VerifierOptions::default()
    };
    flatbuffers::root_with_opts::<Program<'_>>(&options, bytes)
}
