"""The counters and samples that lie beside the spans: one word for each, its unit, and what exporters call it.

`metric` and `unit` are those of SIGNALS, in base units; `exported` is the name in Prometheus text, `factor` what an exported
value is multiplied with to get ours. `of` says whose it is: a GPU, a NIC's port, a node. `system` is the file below
/sys/class/infiniband/NIC/ports/1 that holds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Of = Literal["gpu", "nic", "node"]
MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Metric:
    """One of them. A counter only grows; a gauge is as it is."""

    metric: str
    unit: str
    of: Of
    kind: Literal["gauge", "counter"]
    exported: str
    says: str
    factor: float = 1.0
    system: str | None = None
    system_factor: float = 1.0


_DCGM = "DCGM_FI_DEV_"
_PROF = "DCGM_FI_PROF_"
_IB = "node_infiniband_"

METRICS: Final = (
    Metric("sm_clock", "Hz", "gpu", "gauge", _DCGM + "SM_CLOCK", "SM clock frequency (in MHz).", 1e6),
    Metric("memory_clock", "Hz", "gpu", "gauge", _DCGM + "MEM_CLOCK", "Memory clock frequency (in MHz).", 1e6),
    Metric("gpu_temperature", "C", "gpu", "gauge", _DCGM + "GPU_TEMP", "GPU temperature (in C)."),
    Metric("memory_temperature", "C", "gpu", "gauge", _DCGM + "MEMORY_TEMP", "Memory temperature (in C)."),
    Metric("power", "W", "gpu", "gauge", _DCGM + "POWER_USAGE", "Power draw (in W)."),
    Metric("power_limit", "W", "gpu", "gauge", _DCGM + "POWER_MGMT_LIMIT", "Current power limit (in W)."),
    Metric("clock_reasons", "mask", "gpu", "gauge", _DCGM + "CLOCKS_EVENT_REASONS", "Current clock event reasons (bitmask)."),
    Metric("gpu_utilization", "share", "gpu", "gauge", _DCGM + "GPU_UTIL", "GPU utilization (in %).", 0.01),
    Metric("memory_used", "bytes", "gpu", "gauge", _DCGM + "FB_USED", "Framebuffer memory used (in MiB).", MIB),
    Metric("memory_free", "bytes", "gpu", "gauge", _DCGM + "FB_FREE", "Framebuffer memory free (in MiB).", MIB),
    Metric("tensor_active", "share", "gpu", "gauge", _PROF + "PIPE_TENSOR_ACTIVE",
           "Ratio of cycles the tensor (HMMA) pipe is active."),
    Metric("sm_active", "share", "gpu", "gauge", _PROF + "SM_ACTIVE", "The ratio of cycles an SM has at least 1 warp assigned."),
    Metric("nvlink_sent", "bytes/s", "gpu", "gauge", _PROF + "NVLINK_TX_BYTES", "The rate of data transmitted over NVLink."),
    Metric("nvlink_received", "bytes/s", "gpu", "gauge", _PROF + "NVLINK_RX_BYTES", "The rate of data received over NVLink."),
    Metric("nvlinks_up", "count", "gpu", "gauge", "nvlink_active_links", "NVLinks of the GPU that are up (textfile collector)."),
    Metric("pcie_sent", "bytes/s", "gpu", "gauge", _PROF + "PCIE_TX_BYTES", "The rate of data transmitted over the PCIe bus."),
    Metric("pcie_received", "bytes/s", "gpu", "gauge", _PROF + "PCIE_RX_BYTES", "The rate of data received over the PCIe bus."),
    Metric("pcie_width", "lanes", "gpu", "gauge", _DCGM + "PCIE_LINK_WIDTH", "PCIe current link width."),
    Metric("pcie_generation", "count", "gpu", "gauge", _DCGM + "PCIE_LINK_GEN", "PCIe current link generation."),
    Metric("pcie_replays", "count", "gpu", "counter", _DCGM + "PCIE_REPLAY_COUNTER", "Total number of PCIe retries."),
    Metric("nvlink_errors", "count", "gpu", "counter", _DCGM + "NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
           "Total number of NVLink flow-control CRC errors."),
    Metric("memory_errors", "count", "gpu", "counter", _DCGM + "ECC_SBE_VOL_TOTAL",
           "Total number of single-bit volatile ECC errors."),
    Metric("xid", "count", "gpu", "gauge", _DCGM + "XID_ERRORS", "Value of the last XID error encountered."),
    Metric("data_sent", "bytes", "nic", "counter", _IB + "port_data_transmitted_bytes_total",
           "Number of data octets transmitted on all links", system="counters/port_xmit_data", system_factor=4),
    Metric("data_received", "bytes", "nic", "counter", _IB + "port_data_received_bytes_total",
           "Number of data octets received on all links", system="counters/port_rcv_data", system_factor=4),
    Metric("transmit_wait", "ticks", "nic", "counter", _IB + "port_transmit_wait_total",
           "Number of ticks during which the port had data to transmit but no data was sent during the entire tick",
           system="counters/port_xmit_wait"),
    Metric("symbol_errors", "count", "nic", "counter", _IB + "symbol_error_total",
           "Number of minor link errors detected on one or more physical lanes", system="counters/symbol_error"),
    Metric("link_recoveries", "count", "nic", "counter", _IB + "link_error_recovery_total",
           "Number of times the port completed the link error recovery process successfully",
           system="counters/link_error_recovery"),
    Metric("link_downs", "count", "nic", "counter", _IB + "link_downed_total",
           "Number of times the link failed to recover from an error state and went down", system="counters/link_downed"),
    Metric("receive_errors", "count", "nic", "counter", _IB + "port_errors_received_total",
           "Number of packets containing an error that were received on this port", system="counters/port_rcv_errors"),
    Metric("port_rate", "bytes/s", "nic", "gauge", _IB + "rate_bytes_per_second", "Maximum signal transfer rate"),
    Metric("port_state", "count", "nic", "gauge", _IB + "state_id",
           "State of the InfiniBand port (0: no change, 1: down, 2: init, 3: armed, 4: active, 5: act defer)"),
    Metric("out_of_sequence", "count", "nic", "counter", _IB + "out_of_sequence_packets_received_total",
           "Number of out of sequence packets received", system="hw_counters/out_of_sequence"),
    Metric("sequence_errors", "count", "nic", "counter", _IB + "packet_sequence_errors_total",
           "Number of received NAK sequence error packets", system="hw_counters/packet_seq_err"),
    Metric("ack_timeouts", "count", "nic", "counter", _IB + "local_ack_timeout_errors_total",
           "Number of times QP's ack timer expired for RC, XRC, DCT QPs at the sender side",
           system="hw_counters/local_ack_timeout_err"),
    Metric("congestion_notices_sent", "count", "nic", "counter", _IB + "np_cnp_packets_sent_total",
           "Number of CNPs sent by the Notification Point", system="hw_counters/np_cnp_sent"),
    Metric("congestion_marks", "count", "nic", "counter", _IB + "np_ecn_marked_roce_packets_received_total",
           "Number of RoCEv2 packets received by the notification point which were marked for experiencing the congestion",
           system="hw_counters/np_ecn_marked_roce_packets"),
    Metric("congestion_notices_handled", "count", "nic", "counter", _IB + "rp_cnp_packets_handled_total",
           "Number of CNP packets handled by the Reaction Point HCA to throttle the transmission rate",
           system="hw_counters/rp_cnp_handled"),
    Metric("pauses_received", "count", "nic", "counter", "node_ethtool_received_prio3_pause", "Network interface rx_prio3_pause"),
    Metric("pauses_sent", "count", "nic", "counter", "node_ethtool_transmitted_prio3_pause", "Network interface tx_prio3_pause"),
    Metric("cpu_utilization", "share", "node", "gauge", "node_cpu_seconds_total", "Seconds the CPUs spent in each mode."),
    Metric("run_queue", "count", "node", "gauge", "node_procs_running", "Number of processes in runnable state."),
    Metric("cpu_pressure", "s", "node", "counter", "node_pressure_cpu_waiting_seconds_total",
           "Total time in seconds that processes have waited for CPU time"),
    Metric("io_pressure", "s", "node", "counter", "node_pressure_io_waiting_seconds_total",
           "Total time in seconds that processes have waited due to IO congestion"),
    Metric("memory_pressure", "s", "node", "counter", "node_pressure_memory_waiting_seconds_total",
           "Total time in seconds that processes have waited for memory"),
    Metric("host_memory_available", "bytes", "node", "gauge", "node_memory_MemAvailable_bytes",
           "Memory information field MemAvailable_bytes."),
    Metric("host_memory", "bytes", "node", "gauge", "node_memory_MemTotal_bytes", "Memory information field MemTotal_bytes."),
    Metric("swapped", "bytes", "node", "counter", "node_vmstat_pswpout", "/proc/vmstat information field pswpout.", 4096),
    Metric("storage_read", "bytes", "node", "counter", "storage_read_bytes_total",
           "Bytes read from the file system (textfile collector)."),
    Metric("storage_written", "bytes", "node", "counter", "storage_written_bytes_total",
           "Bytes written to the file system (textfile collector)."),
    Metric("storage_read_latency", "s", "node", "gauge", "storage_read_latency_seconds",
           "Mean latency of a read from the file system (textfile collector)."),
    Metric("network_received", "bytes", "node", "counter", "node_network_receive_bytes_total",
           "Network device statistic receive_bytes."),
    Metric("network_sent", "bytes", "node", "counter", "node_network_transmit_bytes_total",
           "Network device statistic transmit_bytes."),
    Metric("tcp_retransmits", "count", "node", "counter", "node_netstat_Tcp_RetransSegs", "Statistic TcpRetransSegs."),
)  # fmt: skip

BY_WORD: Final = {metric.metric: metric for metric in METRICS}
