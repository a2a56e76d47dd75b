# SPDX-License-Identifier: MIT
# The public headers: what the examples include, directly or indirectly. Only these are installed; ci/check-public.sh
# checks the list.
set(LOCKSTEP_PUBLIC_HEADERS
  common/base/declared.h
  common/base/log.h
  common/base/random/order.h
  common/base/random/philox.h
  common/base/range.h
  common/base/registry.h
  common/base/status.h
  common/comm/comm_choice.h
  common/data/data.h
  common/device/device.h
  common/device/device_memory.h
  common/device/device_name.h
  common/device/machine.h
  common/device/op_list.h
  common/device/placement.h
  common/kernel/kernel.h
  common/kernel/kernel_layers.h
  common/kernel/kernel_residual.h
  common/kernel/kernel_scratch.h
  common/kernel/kernel_step.h
  common/kernel/kernel_storage.h
  common/kernel/kernel_transformer.h
  common/nn/graph.h
  common/nn/model.h
  common/nn/net.h
  common/nn/node.h
  common/nn/optimizer.h
  common/nn/divide/places.h
  common/nn/variables.h
  impl/job.h
  impl/mesh.h
  impl/ps/ps_options.h
  impl/state.h
  impl/strategy.h)
