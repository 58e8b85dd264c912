extension ConfigurationOption {
    /// The cluster that the broker is a node of.
    static let clusterOptions: [ConfigurationOption] = [
        servers,
        .init(
            "martlet_cluster_name", optional: \BrokerConfiguration.cluster.name,
            .text("NAME").with(expected: "up to 64 letters, digits, - and _") { name in
                (1...64).contains(name.utf8.count)
                    && name.utf8.allSatisfy { byte in
                        (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte) || byte == 0x2D
                            || byte == 0x5F
                    }
            },
            "The cluster's name, the same on all its nodes; NATS servers may serve several clusters."),
        .init(
            "martlet_node_address", optional: \BrokerConfiguration.cluster.nodeAddress, .nodeAddress,
            """
            The address at which clients reach this node. The other nodes know it: clients that another node drains (martlet ctl drain) get it
            as Server Reference.
            """),
        .init(
            "martlet_cluster_detached", \BrokerConfiguration.cluster.detached, .choice,
            "While no NATS server can be reached, new clients are refused, or accepted and served by this node alone."),
        .init(
            "martlet_cluster_replicas", optional: \BrokerConfiguration.cluster.replicas, .integer(1...5),
            "The number of replicas of the cluster's JetStream streams; without it 3 where the servers are a cluster, else 1."),
        .init(
            "martlet_cluster_partitions", \BrokerConfiguration.cluster.partitions, .integer(1...64),
            "The number of partitions of the cluster's log. The same on all nodes, and for good: a node with another number does not join."
        ),
        .init(
            "martlet_cluster_mode", optional: \BrokerConfiguration.cluster.mode, .choice,
            """
            What an acknowledgement guarantees: that a message is on the disks of a majority of the servers (they have sync_interval: always), or
            in their memory. With synced, a node is not ready while one of martlet_cluster_monitors reports that its server syncs later.
            """),
        monitors,
        .init(
            "martlet_cluster_session_wait", \BrokerConfiguration.cluster.sessionWaitSeconds, .integer(0...86_400),
            """
            How many seconds a client is refused with Server unavailable after the lease of the node that has its session has expired. Then
            another node restores the session from the cluster's copy.
            """),
        .init(
            "martlet_cluster_user", optional: \BrokerConfiguration.cluster.userName, .text("NAME"),
            "The user name at the NATS servers.",
            reload: true),
        .init(
            "martlet_cluster_password", optional: \BrokerConfiguration.cluster.password, .text("TEXT"),
            "The password of martlet_cluster_user. file:PATH takes it from a file.", reload: true),
        .init(
            "martlet_cluster_token", optional: \BrokerConfiguration.cluster.token, .text("TEXT"),
            "A token, instead of a user name. file:PATH takes it from a file.",
            reload: true),
        .init(
            "martlet_cluster_nkey_file", optional: \BrokerConfiguration.cluster.keyFile, .text("PATH"),
            "A file with the seed of a user's NKey (it begins with SU), instead of user name or token.", reload: true),
        .init(
            "martlet_cluster_tls", \BrokerConfiguration.cluster.requiresTLS, .boolean,
            "Uses TLS also with servers that do not require it.", reload: true),
        .init(
            "martlet_cluster_cafile", optional: \BrokerConfiguration.cluster.authoritiesFile, .text("PATH"),
            "CA certificates for the servers' certificates; without it the system's.", reload: true),
        .init(
            "martlet_cluster_certfile", optional: \BrokerConfiguration.cluster.certificateFile, .text("PATH"),
            "The node's client certificate, where servers require one.", reload: true),
        .init(
            "martlet_cluster_keyfile", optional: \BrokerConfiguration.cluster.certificateKeyFile, .text("PATH"),
            "The private key of martlet_cluster_certfile.", reload: true),
    ]

    private static let servers: ConfigurationOption = {
        var row = ConfigurationOption(
            "martlet_cluster_servers", shape: "nats://HOST:PORT[,nats://HOST:PORT]",
            """
            NATS servers (2.11 or newer, with JetStream) that connect this broker with the other nodes of its cluster; tls:// for TLS. What is
            published on one node reaches the subscribers on all of them, and retained messages are the same on all. With persistence true
            sessions with their queues go where their clients go. The first server is tried first, the next one when it fails.
            """
        ) { (text: String, root: inout BrokerConfiguration, _: Bool) in
            Self.append(text, to: &root.cluster.servers, example: "nats://10.0.0.1:4222,nats://10.0.0.2:4222") { _ in true }
        }
        row.differs = BrokerConfiguration.difference { $0.cluster.servers.joined(separator: ",") }
        return row
    }()

    private static let monitors: ConfigurationOption = {
        var row = ConfigurationOption(
            "martlet_cluster_monitors", shape: "http://HOST:PORT[,http://HOST:PORT]",
            """
            The monitoring endpoint of each server (its http_port, 8222 without a port here), which tells its sync_interval. Without it the
            node does not know whether acknowledged messages are on the servers' disks.
            """
        ) { (text: String, root: inout BrokerConfiguration, _: Bool) in
            Self.append(text, to: &root.cluster.monitors, example: "http://10.0.0.1:8222,http://10.0.0.2:8222") {
                $0.hasPrefix("http://")
            }
        }
        row.differs = BrokerConfiguration.difference { $0.cluster.monitors.joined(separator: ",") }
        return row
    }()

    /// Adds the addresses of a line; nil if all are some, else what would be right: of a comma too many the line
    /// without it.
    private static func append(
        _ text: String, to addresses: inout [String], example: String, _ isRight: (String) -> Bool
    ) -> Expectation? {
        let parts = text.split(separator: ",", omittingEmptySubsequences: false).map { trimmed($0) }
        let given = parts.filter { !$0.isEmpty }
        guard !given.isEmpty, given.allSatisfy({ isRight($0) && !$0.contains(" ") }) else {
            return .expected("addresses with commas between them, such as \(example)")
        }
        guard given.count == parts.count else {
            let right = AddressMask.masking(given.joined(separator: ","))
            return .expected("one comma between two addresses, and none elsewhere: \(right)")
        }
        addresses += given
        return nil
    }

    private static func trimmed(_ text: Substring) -> String {
        var text = text.drop { $0 == " " || $0 == "\t" }
        while let last = text.last, last == " " || last == "\t" { text = text.dropLast() }
        return String(text)
    }
}
