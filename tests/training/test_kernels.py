"""Kernels are sorted by what they do."""

import jax
import pytest

from ebmm.training.kernels import Kernel, kind_of, profile_of, summary


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("gemm_fusion_dot_1234", "matrix products"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm>", "matrix products"),
        ("sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize64x64", "matrix products"),
        ("input_add_multiply_reduce_fusion_7", "sums"),
        ("loop_concatenate_fusion_3", "gathering of patches"),
        ("input_transpose_fusion", "transposes"),
        ("loop_dynamic_update_slice_fusion", "copies"),
        ("MemcpyD2D", "copies"),
        ("loop_add_tanh_fusion", "element by element"),
    ],
)
def test_names_tell_what_a_kernel_does(name, kind):
    assert kind_of(name) == kind


def test_times_are_added_up_for_each_update():
    kernels = [Kernel("gemm", 0, 4e6), Kernel("loop_add_fusion", 4e6, 1e6), Kernel("gemm", 6e6, 4e6)]
    found = summary(kernels, updates=2)
    assert found["kernels"] == 1.5
    assert found["span_milliseconds"] == 5  # with the gap
    assert found["kinds"] == {
        "matrix products": {"kernels": 1.0, "milliseconds": 4.0},
        "element by element": {"kernels": 0.5, "milliseconds": 0.5},
    }
    assert next(iter(found["kinds"])) == "matrix products"
    assert summary([], updates=1)["kernels"] == 0


@pytest.mark.skipif(jax.default_backend() == "gpu", reason="for machines without a GPU")
def test_a_machine_without_a_gpu_is_refused():
    with pytest.raises(ValueError, match="expected a GPU"):
        profile_of(lambda: None, updates=1)
