//! The GPUs, each with what nvidia-smi and torch report for it.
//!
//! `stored-file` numbers and addresses beside a row are where its figures were
//! read: start-up logs, nvidia-smi listings and out-of-memory messages.
//! torch's total differs between drivers by some MiB, so that it is a range: from
//! the least to the most that was seen, a figure printed in GiB as wide as its two
//! decimals allow. Where none was seen (`torch_inferred`), it is that of the same
//! board under another name, or NVML's less what boards of that size keep back.

use super::CatalogGpu;
use crate::gpu::ComputeCapability;

const fn cc(major: u8, minor: u8) -> ComputeCapability {
    ComputeCapability::new(major, minor)
}

/// SM90, SM100/103 and SM120/121.
pub const GPUS: [CatalogGpu; 28] = [
    // source: stored-file:68753007268, stored-file:43466784132, stored-file:16920867219, stored-file:53763892014
    CatalogGpu {
        key: "h100-sxm-80gb",
        aliases: &["h100"],
        name: "NVIDIA H100 80GB HBM3",
        label: "H100 SXM",
        capability: cc(9, 0),
        nvml_total_mib: 81_559,
        nvml_inferred: false,
        capability_inferred: false,
        torch_total_mib: (81_082, 81_090),
        torch_inferred: false,
        vendor_memory_gb: Some(80),
    },
    // source: stored-file:10469742556, stored-file:31353373741, stored-file:33356850601, stored-file:48054561052
    CatalogGpu {
        key: "h100-pcie-80gb",
        aliases: &[],
        name: "NVIDIA H100 PCIe",
        label: "H100 PCIe",
        capability: cc(9, 0),
        nvml_total_mib: 81_559,
        nvml_inferred: false,
        capability_inferred: false,
        torch_total_mib: (81_008, 81_008),
        torch_inferred: false,
        vendor_memory_gb: Some(80),
    },
    // source: stored-file:68839362577, stored-file:62377751377, stored-file:54699393232, stored-file:68902845831
    // inferred: the compute capability is the chip's; no log that names both was found
    CatalogGpu {
        key: "h100-nvl-94gb",
        aliases: &[],
        name: "NVIDIA H100 NVL",
        label: "H100 NVL",
        capability: cc(9, 0),
        nvml_total_mib: 95_830,
        nvml_inferred: false,
        capability_inferred: true,
        torch_total_mib: (95_247, 95_340),
        torch_inferred: false,
        vendor_memory_gb: Some(94),
    },
    // source: stored-file:7120582781, stored-file:6737105653, stored-file:71515830599, stored-file:2097843420
    CatalogGpu {
        key: "h200-sxm-141gb",
        aliases: &["h200"],
        name: "NVIDIA H200",
        label: "H200 SXM",
        capability: cc(9, 0),
        nvml_total_mib: 143_771,
        nvml_inferred: false,
        capability_inferred: false,
        torch_total_mib: (143_156, 143_171),
        torch_inferred: false,
        vendor_memory_gb: Some(141),
    },
    // source: stored-file:58509401182, stored-file:52951295611, stored-file:57754680604, stored-file:62068367933
    // inferred: the compute capability is the chip's; no log that names both was found
    CatalogGpu {
        key: "h200-nvl-141gb",
        aliases: &[],
        name: "NVIDIA H200 NVL",
        label: "H200 NVL",
        capability: cc(9, 0),
        nvml_total_mib: 143_771,
        nvml_inferred: false,
        capability_inferred: true,
        torch_total_mib: (143_156, 143_171),
        torch_inferred: true,
        vendor_memory_gb: Some(141),
    },
    // source: stored-file:53244009727, stored-file:16046885641, stored-file:16002546013, https://willitrunai.com/es/gpus/h20-96gb
    CatalogGpu {
        key: "h20-96gb",
        aliases: &["h20"],
        name: "NVIDIA H20",
        label: "H20",
        capability: cc(9, 0),
        nvml_total_mib: 97_871,
        nvml_inferred: false,
        capability_inferred: false,
        torch_total_mib: (97_285, 97_285),
        torch_inferred: false,
        vendor_memory_gb: Some(96),
    },
    // source: stored-file:59265961539, stored-file:61255895334, stored-file:65832400105, stored-file:61168334695
    CatalogGpu {
        key: "h20-141gb",
        aliases: &["h20-3e"],
        name: "NVIDIA H20-3e",
        label: "H20-3e",
        capability: cc(9, 0),
        nvml_total_mib: 143_771,
        nvml_inferred: false,
        capability_inferred: false,
        torch_total_mib: (143_156, 143_171),
        torch_inferred: true,
        vendor_memory_gb: Some(141),
    },
    // source: stored-file:41507333121, stored-file:40223502532, stored-file:19549779807, stored-file:57382739794
    // inferred: the compute capability is the chip's; no log that names both was found
    CatalogGpu {
        key: "h800-80gb",
        aliases: &["h800"],
        name: "NVIDIA H800",
        label: "H800",
        capability: cc(9, 0),
        nvml_total_mib: 81_559,
        nvml_inferred: false,
        capability_inferred: true,
        torch_total_mib: (81_008, 81_090),
        torch_inferred: true,
        vendor_memory_gb: None,
    },
    // source: stored-file:25187769457, stored-file:1214960319, stored-file:68931931777, stored-file:69851371599
    // inferred: the compute capability is the chip's; no log that names both was found
    CatalogGpu {
        key: "gh200-96gb",
        aliases: &["gh200"],
        name: "NVIDIA GH200 480GB",
        label: "GH200 96 GB",
        capability: cc(9, 0),
        nvml_total_mib: 97_871,
        nvml_inferred: false,
        capability_inferred: true,
        torch_total_mib: (97_274, 97_286),
        torch_inferred: false,
        vendor_memory_gb: Some(96),
    },
    // source: stored-file:57699609541, stored-file:57646536816, stored-file:70117742890
    CatalogGpu {
        key: "gh200-144gb",
        aliases: &[],
        name: "NVIDIA GH200 144G HBM3e",
        label: "GH200 144 GB",
        capability: cc(9, 0),
        nvml_total_mib: 146_831,
        nvml_inferred: false,
        capability_inferred: false,
        torch_total_mib: (145_831, 146_331),
        torch_inferred: true,
        vendor_memory_gb: Some(144),
    },
    // source: stored-file:58371658710, stored-file:58056079371, stored-file:9174932594, stored-file:2097843420
    CatalogGpu {
        key: "b200",
        aliases: &[],
        name: "NVIDIA B200",
        label: "B200",
        capability: cc(10, 0),
        nvml_total_mib: 183_359,
        nvml_inferred: false,
        capability_inferred: false,
        torch_total_mib: (182_631, 182_642),
        torch_inferred: false,
        vendor_memory_gb: Some(192),
    },
    // source: stored-file:57445483512, stored-file:58750094259, stored-file:51864327511, stored-file:66768263030
    CatalogGpu {
        key: "gb200",
        aliases: &[],
        name: "NVIDIA GB200",
        label: "GB200",
        capability: cc(10, 0),
        nvml_total_mib: 189_471,
        nvml_inferred: false,
        capability_inferred: false,
        torch_total_mib: (188_728, 188_739),
        torch_inferred: false,
        vendor_memory_gb: Some(192),
    },
    // source: stored-file:63325776230, stored-file:63390294774, stored-file:65926719034, stored-file:66974703316
    CatalogGpu {
        key: "b300",
        aliases: &[],
        name: "NVIDIA B300 SXM6 AC",
        label: "B300",
        capability: cc(10, 3),
        nvml_total_mib: 275_040,
        nvml_inferred: false,
        capability_inferred: false,
        torch_total_mib: (274_109, 274_120),
        torch_inferred: false,
        vendor_memory_gb: Some(288),
    },
    // source: stored-file:52252791387, stored-file:66256874927, stored-file:51884305790, stored-file:55106805727
    CatalogGpu {
        key: "gb300-nvl",
        aliases: &["gb300"],
        name: "NVIDIA GB300",
        label: "GB300 NVL",
        capability: cc(10, 3),
        nvml_total_mib: 284_208,
        nvml_inferred: false,
        capability_inferred: false,
        torch_total_mib: (283_130, 283_142),
        torch_inferred: false,
        vendor_memory_gb: Some(288),
    },
    // source: stored-file:68929130682, stored-file:68464188747
    // inferred: the compute capability is the chip's; no log that names both was found
    CatalogGpu {
        key: "gb300-dgx-station",
        aliases: &[],
        name: "NVIDIA GB300",
        label: "GB300 DGX Station",
        capability: cc(10, 3),
        nvml_total_mib: 256_703,
        nvml_inferred: false,
        capability_inferred: true,
        torch_total_mib: (255_600, 256_200),
        torch_inferred: true,
        vendor_memory_gb: None,
    },
    // source: stored-file:70545271188, stored-file:57392782781, stored-file:63441798540, stored-file:70918295951
    CatalogGpu {
        key: "rtx-pro-6000-ws",
        aliases: &["rtx-pro-6000", "rtxpro6000"],
        name: "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
        label: "RTX PRO 6000 WS",
        capability: cc(12, 0),
        nvml_total_mib: 97_887,
        nvml_inferred: false,
        capability_inferred: false,
        torch_total_mib: (97_244, 97_296),
        torch_inferred: false,
        vendor_memory_gb: Some(96),
    },
    // source: stored-file:70085960454, stored-file:70226878406, stored-file:63089480649, stored-file:71351926686
    CatalogGpu {
        key: "rtx-pro-6000-server",
        aliases: &[],
        name: "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        label: "RTX PRO 6000 Server",
        capability: cc(12, 0),
        nvml_total_mib: 97_887,
        nvml_inferred: false,
        capability_inferred: false,
        torch_total_mib: (97_244, 97_296),
        torch_inferred: false,
        vendor_memory_gb: Some(96),
    },
    // source: stored-file:60661372536, stored-file:55414006193, stored-file:40638937359, https://www.purepc.pl/nvidia-rtx-pro-6000-rtx-pro-6000-max-q-rtx-pro-5000-rtx-pro-4500-oraz-rtx-pro-4000-profesjonalne-karty-graficzne-blackwell
    // inferred: the compute capability is the chip's; no log that names both was found
    CatalogGpu {
        key: "rtx-pro-6000-maxq",
        aliases: &[],
        name: "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        label: "RTX PRO 6000 Max-Q",
        capability: cc(12, 0),
        nvml_total_mib: 97_887,
        nvml_inferred: false,
        capability_inferred: true,
        torch_total_mib: (97_244, 97_296),
        torch_inferred: true,
        vendor_memory_gb: Some(96),
    },
    // source: stored-file:54570017740, stored-file:61506984505, stored-file:70919330036, https://www.purepc.pl/nvidia-rtx-pro-6000-rtx-pro-6000-max-q-rtx-pro-5000-rtx-pro-4500-oraz-rtx-pro-4000-profesjonalne-karty-graficzne-blackwell
    CatalogGpu {
        key: "rtx-pro-5000-48gb",
        aliases: &["rtx-pro-5000"],
        name: "NVIDIA RTX PRO 5000 Blackwell",
        label: "RTX PRO 5000 48 GB",
        capability: cc(12, 0),
        nvml_total_mib: 48_935,
        nvml_inferred: false,
        capability_inferred: false,
        torch_total_mib: (48_358, 48_369),
        torch_inferred: false,
        vendor_memory_gb: Some(48),
    },
    // source: stored-file:55792909405, stored-file:65778504935, stored-file:67300695842, stored-file:60747133915
    CatalogGpu {
        key: "rtx-pro-5000-72gb",
        aliases: &[],
        name: "NVIDIA RTX PRO 5000 72GB Blackwell",
        label: "RTX PRO 5000 72 GB",
        capability: cc(12, 0),
        nvml_total_mib: 73_415,
        nvml_inferred: false,
        capability_inferred: false,
        torch_total_mib: (72_715, 72_965),
        torch_inferred: true,
        vendor_memory_gb: Some(72),
    },
    // source: stored-file:62534575066, stored-file:57746969535, https://technical.city/en/video/RTX-PRO-4500-Blackwell-vs-RTX-PRO-5000-72-GB-Blackwell, https://hmc-tech.com/gpus/nvidia-geforce-rtx-4090-vs-nvidia-rtx-pro-4500-blackwell
    CatalogGpu {
        key: "rtx-pro-4500-32gb",
        aliases: &["rtx-pro-4500"],
        name: "NVIDIA RTX PRO 4500 Blackwell",
        label: "RTX PRO 4500",
        capability: cc(12, 0),
        nvml_total_mib: 32_623,
        nvml_inferred: false,
        capability_inferred: false,
        torch_total_mib: (32_128, 32_139),
        torch_inferred: true,
        vendor_memory_gb: Some(32),
    },
    // source: https://github.com/vllm-project/vllm/pull/51590
    CatalogGpu {
        key: "rtx-pro-4500-server-32gb",
        aliases: &[],
        name: "NVIDIA RTX PRO 4500 Blackwell Server Edition",
        label: "RTX PRO 4500 Server",
        capability: cc(12, 0),
        nvml_total_mib: 32_623,
        nvml_inferred: false,
        capability_inferred: false,
        torch_total_mib: (32_128, 32_139),
        torch_inferred: false,
        vendor_memory_gb: Some(32),
    },
    // source: stored-file:57390447362, stored-file:70926260207, stored-file:54499009083, stored-file:58223969175
    // inferred: the compute capability is the chip's; no log that names both was found
    CatalogGpu {
        key: "rtx-pro-4000-24gb",
        aliases: &["rtx-pro-4000"],
        name: "NVIDIA RTX PRO 4000 Blackwell",
        label: "RTX PRO 4000",
        capability: cc(12, 0),
        nvml_total_mib: 24_467,
        nvml_inferred: false,
        capability_inferred: true,
        torch_total_mib: (23_947, 24_067),
        torch_inferred: true,
        vendor_memory_gb: Some(24),
    },
    // source: stored-file:68835387782, stored-file:67191465715, stored-file:69808241206, stored-file:57676316864
    CatalogGpu {
        key: "rtx-5090",
        aliases: &["rtx5090", "5090"],
        name: "NVIDIA GeForce RTX 5090",
        label: "RTX 5090",
        capability: cc(12, 0),
        nvml_total_mib: 32_607,
        nvml_inferred: false,
        capability_inferred: false,
        torch_total_mib: (32_109, 32_119),
        torch_inferred: false,
        vendor_memory_gb: Some(32),
    },
    // source: stored-file:71090260834, stored-file:57453312064, stored-file:67382255118, https://www.tweaktown.com/news/102469/nvidia-geforce-rtx-50-series-specs-pricing-and-performance-plan-that-upgrade-today/index.html
    CatalogGpu {
        key: "rtx-5080",
        aliases: &["rtx5080", "5080"],
        name: "NVIDIA GeForce RTX 5080",
        label: "RTX 5080",
        capability: cc(12, 0),
        nvml_total_mib: 16_303,
        nvml_inferred: false,
        capability_inferred: false,
        torch_total_mib: (15_808, 15_850),
        torch_inferred: true,
        vendor_memory_gb: Some(16),
    },
    // source: stored-file:61000809478, stored-file:71041128392, stored-file:70525835084, stored-file:53223675144
    CatalogGpu {
        key: "rtx-5070-ti",
        aliases: &["rtx5070ti"],
        name: "NVIDIA GeForce RTX 5070 Ti",
        label: "RTX 5070 Ti",
        capability: cc(12, 0),
        nvml_total_mib: 16_303,
        nvml_inferred: false,
        capability_inferred: false,
        torch_total_mib: (15_808, 15_842),
        torch_inferred: false,
        vendor_memory_gb: Some(16),
    },
    // source: stored-file:68332015088, stored-file:69192975654, stored-file:9995932201, stored-file:56432603956
    CatalogGpu {
        key: "rtx-5060-ti-16gb",
        aliases: &["rtx-5060-ti", "rtx5060ti"],
        name: "NVIDIA GeForce RTX 5060 Ti",
        label: "RTX 5060 Ti 16 GB",
        capability: cc(12, 0),
        nvml_total_mib: 16_311,
        nvml_inferred: false,
        capability_inferred: false,
        torch_total_mib: (15_825, 15_850),
        torch_inferred: false,
        vendor_memory_gb: Some(16),
    },
    // source: stored-file:68531280425, stored-file:70820752248, stored-file:67408821894, stored-file:60302613727
    // inferred: NVML reports no total for unified memory; torch's figure stands in
    CatalogGpu {
        key: "gb10-dgx-spark",
        aliases: &["gb10", "dgx-spark"],
        name: "NVIDIA GB10",
        label: "GB10 (DGX Spark)",
        capability: cc(12, 1),
        nvml_total_mib: 124_610,
        nvml_inferred: true,
        capability_inferred: false,
        torch_total_mib: (122_502, 124_610),
        torch_inferred: false,
        vendor_memory_gb: Some(128),
    },
];
