/// A set of values for a place that a broker runs in, which one line of the file asks for.
///
/// A profile is a list of lines. Each counts as if it stood in the file, unless the file has a line of its own with that option:
/// above or below the profile's line, or in a file that is included.
public enum ConfigurationProfile: String, Sendable, Equatable, CaseIterable {
    /// Strangers reach the broker: whatever one of them could make grow, or do often, has a bound.
    case internet

    /// The lines that it stands for, each an option of the whole broker with its value, in the order of the example file.
    public var lines: [(name: String, value: String)] {
        switch self {
        case .internet:
            [
                // The whole broker.
                ("global_max_clients", "50000"),
                ("global_max_connections", "20000"),
                ("memory_limit", "2000000000"),
                // One packet.
                ("max_packet_size", "262144"),
                ("martlet_max_topic_levels", "20"),
                ("martlet_max_topic_length", "1024"),
                // One client.
                ("max_inflight_bytes", "1000000"),
                ("max_queued_messages", "1000"),
                ("max_queued_bytes", "4000000"),
                ("martlet_max_subscriptions_per_client", "100"),
                ("martlet_output_bytes_max", "4000000"),
                ("martlet_max_messages_per_second", "1000"),
                ("martlet_max_bytes_per_second", "4000000"),
                ("martlet_max_connections_per_second_per_address", "50"),
                // Time.
                ("max_keepalive", "1200"),
                ("persistent_client_expiration", "14d"),
                ("martlet_max_session_expiry_interval", "1209600"),
                ("martlet_connect_timeout", "10"),
                // The disk.
                ("martlet_store_bytes_max", "4000000000"),
            ]
        }
    }
}
