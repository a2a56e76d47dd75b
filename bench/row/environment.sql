-- The variables of :document, [[name, value], ..], that change what a library computes, or how fast: an object of them, in
-- the order of their names, if there are any. Left out is what only says where files are or which version a module loaded;
-- what a launcher sets by itself; and what a row has elsewhere: which libraries were loaded (`libraries`) and which GPUs
-- were visible (`gpus`, by their PCI addresses).
WITH
listed (patterns) AS (VALUES
  -- oneDNN: instruction set, caches, what it prints meanwhile
  ('ONEDNN_* DNNL_*'),
  -- glibc: memory functions and libm's by instruction set, its allocator
  ('GLIBC_TUNABLES MALLOC_*'),
  -- the loader: libraries in the place of others, when symbols are bound
  ('LD_PRELOAD LD_AUDIT LD_BIND_NOW'),
  -- hwloc: the cores that are seen, and how they are numbered
  ('HWLOC_XMLFILE HWLOC_SYNTHETIC HWLOC_FSROOT HWLOC_CPUID_PATH HWLOC_COMPONENTS HWLOC_ALLOW HWLOC_THISSYSTEM*'),
  -- Open MPI: transports, algorithms of collectives, waiting; mpirun --mca sets them, too
  ('OMPI_MCA_allocator* OMPI_MCA_bml* OMPI_MCA_btl* OMPI_MCA_coll* OMPI_MCA_common_* OMPI_MCA_mpi_* '
    || 'OMPI_MCA_mpool* OMPI_MCA_mtl* OMPI_MCA_op OMPI_MCA_op_* OMPI_MCA_opal_* OMPI_MCA_osc* OMPI_MCA_pml* '
    || 'OMPI_MCA_rcache* OMPI_MCA_smsc* OMPI_MCA_threads*'),
  -- MPICH and its relatives: as for Open MPI
  ('MPICH_* MPIR_CVAR_* I_MPI_*'),
  -- networks under MPI and NCCL
  ('UCX_* UCC_* FI_* PSM2_* PSM3_* HCOLL_* SHARP_* IBV_* RDMAV_* MLX4_* MLX5_*'),
  -- CUDA: arithmetic of products in float32; compilation, launches, queues, shares of a GPU
  ('NVIDIA_TF32_OVERRIDE CUDA_AUTO_BOOST CUDA_DEVICE_MAX_CONNECTIONS CUDA_DEVICE_MAX_COPY_CONNECTIONS '
    || 'CUDA_DEVICE_WAITS_ON_EXCEPTION CUDA_DISABLE_*JIT CUDA_ENABLE_CRC_CHECK CUDA_FORCE_*JIT '
    || 'CUDA_GRAPHS_USE_NODE_PRIORITY CUDA_INJECTION64_PATH CUDA_LAUNCH_BLOCKING CUDA_MANAGED_FORCE_DEVICE_ALLOC '
    || 'CUDA_MODULE_*LOADING CUDA_MPS_* CUDA_SCALE_LAUNCH_QUEUES'),
  -- NVIDIA's libraries: algorithms, workspaces, transports, what they print meanwhile
  ('CUBLAS_* CUBLASLT_* CUDNN_* NCCL_*')),
left_out (patterns) AS (VALUES
  -- where it is, and which
  ('*_VERSION *_HOME *_ROOT *_DIR CUBLAS_*PATH CUDNN_*PATH NCCL_*PATH UCX_*PATH'),
  -- set by mpirun and mpiexec for each rank; which warnings are printed
  ('OMPI_MCA_mpi_oversubscribe MPIR_CVAR_CH3_INTERFACE_HOSTNAME I_MPI_HYDRA_* I_MPI_MPIRUN* OMPI_MCA_*warn*')),
every (kind, pattern) AS MATERIALIZED (
  SELECT kind, value FROM (SELECT 1 AS kind, patterns FROM listed UNION ALL SELECT 0, patterns FROM left_out),
    json_each('["' || replace(patterns, ' ', '","') || '"]')),
-- of one name the first counts, as for getenv
given AS (SELECT value ->> 0 AS name, value ->> 1 AS value, min(key) FROM json_each(:document) GROUP BY 1 ORDER BY 1)
SELECT json_group_object(name, value) AS "group:json" FROM given
WHERE EXISTS (SELECT 1 FROM every WHERE kind AND name GLOB pattern)
  AND NOT EXISTS (SELECT 1 FROM every WHERE NOT kind AND name GLOB pattern) HAVING count(*) > 0;
