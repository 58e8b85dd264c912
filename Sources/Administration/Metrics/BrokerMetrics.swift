internal import BrokerModel
internal import Cluster
internal import HTTP
internal import MQTTCodec

/// All that is measured, as Prometheus asks for it.
extension Administration {
    func getMetrics(_ call: Call) throws(APIError) {
        let accepted = HTTPPreference(call.request.fields["Accept"] ?? "")
        let isOpen =
            accepted.weight(ofType: "application/openmetrics-text") > 0
            && accepted.members.contains { $0.word.hasPrefix("application/openmetrics-text") }
        let format = isOpen ? MetricText.Format.openMetrics : .prometheus
        let isMosquitto = call.text("names") == "mosquitto"
        withStatistics(call) { [self] shards in
            func answer(_ text: String) {
                call.answer(HTTPResponse(.ok, fields: ["Content-Type": format.mediaType], body: .bytes(Array(text.utf8))))
            }
            if isMosquitto { return answer(mosquittoMetrics(shards, format)) }
            askAll(call, .drops, rowsMax: 1) { [self] (replies) throws(APIError) in
                let drops = replies.compactMap { if case .drops(let report) = $0.rows { report } else { nil } }
                withTopicMetrics(call) { [self] topics in
                    var text = MetricText(format)
                    MetricFamily.write(
                        MeasuredBroker(self, shards, drops: TopicAnswers(self).dropsByListener(drops), topics: topics), to: &text)
                    answer(text.whole)
                }
            }
        }
    }
}

/// All that is measured of a broker at one moment, as its metrics are made of it.
struct MeasuredBroker {
    let facts: BrokerFacts
    let condition: BrokerCondition
    let shards: [ShardStatistics]
    let sum: ShardStatistics
    /// In the order of the configuration, those that are closed too: counts go by their places.
    let listeners: [AdministeredListener]
    let bans: [Ban]
    let bansMade: [BanKind: Int]
    let bridges: [AdministeredBridge]
    let openFiles: (open: Int, limit: Int)
    let storeFreeBytes: UInt64?
    let drops: [(name: String, drops: DropCounts)]
    let topics: [TopicMeterRow]
    let alarms: AlarmBoard
    let requests: RequestCounts

    /// - Parameters:
    ///   - drops: by the client's listener.
    ///   - topics: what was counted of topic filters.
    init(
        _ administration: Administration, _ shards: [ShardStatistics], drops: [(name: String, drops: DropCounts)],
        topics: [TopicMeterRow]
    ) {
        let broker = administration.broker
        (facts, condition, listeners) = (broker.facts, broker.condition, broker.listeners)
        (self.shards, sum) = (shards, ShardStatistics.sum(of: shards))
        (bans, bansMade, bridges) = (broker.bans.all, broker.bansMade, broker.bridges)
        (openFiles, storeFreeBytes) = ((broker.openFiles, broker.openFilesMax), broker.storeFreeBytes)
        (self.drops, self.topics) = (drops, topics)
        (alarms, requests) = (administration.alarms, administration.requestCounts)
    }

    /// Those that let somebody in.
    var openListeners: [AdministeredListener] { listeners.filter { !$0.isClosed } }

    /// What was counted of clients that went, by listener: those of the same name, because a reload has closed one and
    /// opened the other, under the last one's number.
    var disconnects: Tally<DisconnectTally> {
        let names = listeners.map(\.name)
        guard Set(names).count < names.count else { return sum.disconnects }
        var tally = Tally<DisconnectTally>()
        for (key, count) in sum.disconnects.counts {
            let place = names.indices.contains(key.listener) ? names.lastIndex(of: names[key.listener]) : nil
            tally.add(DisconnectTally(listener: place ?? key.listener, reason: key.reason), count)
        }
        return tally
    }

    /// The nodes of the cluster with the labels of each, and those of the cluster; none on a broker that is alone.
    var nodes: [(member: ClusterMember, labels: MetricText.Labels)] {
        guard let cluster = condition.cluster else { return [] }
        return cluster.members.map {
            ($0, clusterLabels + [("node", $0.shownName), ("id", $0.node.description)])
        }
    }

    var clusterLabels: MetricText.Labels { condition.cluster.map { [("cluster", $0.name)] } ?? [] }

    /// The counts of a tally as samples, in an order that stays.
    ///
    /// - Parameter usual: what is told of though it has not happened yet, so that its first time shows as a rise.
    static func samples<Key>(_ tally: Tally<Key>, usual: [Key], _ labels: (Key) -> MetricText.Labels) -> [MetricFamily.Sample] {
        Set(tally.counts.keys).union(usual).map { (labels($0), Double(tally[$0])) }.sorted { "\($0.0)" < "\($1.0)" }
    }

    /// What was measured of the latencies that have labels.
    func latencies(_ labels: (Latency) -> MetricText.Labels?) -> [MetricFamily.Measured] {
        sum.latencies.histograms.compactMap { latency, histogram in labels(latency).map { ($0, histogram, nil) } }
            .sorted { "\($0.0)" < "\($1.0)" }
    }
}

/// Metrics of a broker, each declared once: one of them with samples that no single field has, because their labels
/// tell the counts of one kind apart, or all those of a resource's fields.
struct MetricFamily: Sendable {
    typealias Sample = (MetricText.Labels, Double)
    typealias Measured = (MetricText.Labels, Histogram, MetricText.Exemplar?)

    private let write: @Sendable (MeasuredBroker, inout MetricText) -> Void

    static func gauge(_ name: String, _ help: String, _ samples: @escaping @Sendable (MeasuredBroker) -> [Sample]) -> MetricFamily {
        MetricFamily { $1.gauge(name, help, samples($0)) }
    }

    /// - Parameter name: with `_total` at its end.
    static func counter(_ name: String, _ help: String, _ samples: @escaping @Sendable (MeasuredBroker) -> [Sample]) -> MetricFamily
    {
        MetricFamily { $1.counter(name, help, samples($0)) }
    }

    static func histogram(_ name: String, _ help: String, _ samples: @escaping @Sendable (MeasuredBroker) -> [Measured])
        -> MetricFamily
    {
        MetricFamily { $1.histogram(name, help, samples($0)) }
    }

    /// Those of a resource's fields.
    static func fields<Row>(
        of resource: Resource<Row>, _ rows: @escaping @Sendable (MeasuredBroker) -> [(labels: MetricText.Labels, row: Row)]
    ) -> MetricFamily {
        MetricFamily { resource.write(rows($0), to: &$1) }
    }

    /// Writes all that there are.
    static func write(_ broker: MeasuredBroker, to text: inout MetricText) { for family in all { family.write(broker, &text) } }

    private static let all = broker + held + process + traffic + logins + topics + times + bridges + alarms + cluster + requests
}

extension MetricFamily {
    private static let broker: [MetricFamily] = [
        .gauge("martlet_build_info", "The version of the broker.") { [([("version", $0.facts.version)], 1)] },
        .gauge("martlet_start_time_seconds", "When the broker started, in seconds since 1970.") {
            [([], Double($0.facts.startedAt) / 1000)]
        },
        .gauge("martlet_connections", "Connections by listener.") {
            $0.openListeners.map { ([("listener", $0.name), ("protocol", $0.application.rawValue)], Double($0.connections)) }
        },
        .gauge("martlet_tls_handshakes", "TLS handshakes that are under way, and clients that wait to begin theirs.") {
            [([("state", "under_way")], Double($0.sum.handshakes)), ([("state", "waiting")], Double($0.sum.handshakesWaiting))]
        },
    ]

    private static let held: [MetricFamily] = [
        .fields(of: Administration.heldResource) { [([], $0.sum)] },
        .gauge("martlet_bans", "Bans in force.") { broker in
            BanKind.allCases.map { kind in ([("as", kind.rawValue)], Double(broker.bans.count { $0.target.kind == kind })) }
        },
        .counter("martlet_bans_total", "Bans that were added.") { broker in
            BanKind.allCases.map { ([("as", $0.rawValue)], Double(broker.bansMade[$0] ?? 0)) }
        },
        .fields(of: Administration.storeFiguresResource) { [([], $0.sum)] },
        .gauge("martlet_store_ready", "1 while the store accepts writes; 1 without a store.") {
            [([], $0.condition.store == nil || $0.condition.store == .good ? 1 : 0)]
        },
        .gauge("martlet_certificate_not_after_seconds", "When a certificate expires, in seconds since 1970.") {
            $0.openListeners.compactMap { listener in
                guard let certificate = listener.certificate, let end = certificate.notAfter else { return nil }
                return ([("listener", listener.name), ("name", certificate.name)], Double(end) / 1000)
            }
        },
    ]

    private static let process: [MetricFamily] = [
        .gauge("process_resident_memory_bytes", "Memory of the process.") { [([], Double($0.condition.residentBytes))] },
        .counter("process_cpu_seconds_total", "Processor time of the process.") { [([], $0.condition.processorSeconds)] },
        .gauge("process_open_fds", "Open files of the process.") { [([], Double($0.openFiles.open))] },
        .gauge("process_max_fds", "Files that the process may have open.") { [([], Double($0.openFiles.limit))] },
        .gauge("martlet_store_free_bytes", "Bytes that are free on the file system of the store.") {
            $0.storeFreeBytes.map { [([], Double($0))] } ?? []
        },
    ]

    private static let traffic: [MetricFamily] = [
        .counter("martlet_packets_received_total", "Packets from clients.") { broker in
            PacketType.allCases.filter { $0.isSent(by: .client, version: .v5) }.map {
                ([("type", "\($0)")], Double(broker.sum.packetsReceived[$0]))
            }
        },
        .counter("martlet_packets_sent_total", "Packets to clients.") { broker in
            PacketType.allCases.filter { $0.isSent(by: .server, version: .v5) }.map {
                ([("type", "\($0)")], Double(broker.sum.packetsSent(of: $0)))
            }
        },
        .counter("martlet_messages_received_total", "PUBLISH packets from clients.") { broker in
            eachQoS.map { ([("qos", "\($0.rawValue)")], Double(broker.sum.messagesReceivedByQoS[$0])) }
        },
        .counter("martlet_messages_sent_total", "PUBLISH packets to clients.") { broker in
            eachQoS.map { ([("qos", "\($0.rawValue)")], Double(broker.sum.messagesSentByQoS[$0])) }
        },
        .fields(of: Administration.totalsResource) { [([], $0.sum)] },
        .counter("martlet_messages_dropped_total", "Messages that were dropped.") { broker in
            DropReason.allCases.map { ([("reason", $0.label)], Double(broker.sum.drops[$0])) }
        },
        .counter("martlet_connections_accepted_total", "Connections that were accepted, by listener.") {
            $0.openListeners.compactMap { listener in
                listener.connectionsAccepted.map {
                    ([("listener", listener.name), ("protocol", listener.application.rawValue)], Double($0))
                }
            }
        },
    ]

    private static let eachQoS: [QoS] = [.atMostOnce, .atLeastOnce, .exactlyOnce]

    /// The counts of clients that came in, that did not, and that went.
    private static let logins: [MetricFamily] = [
        .counter("martlet_connections_refused_total", "Connections that were refused, before or with CONNACK.") {
            MeasuredBroker.samples($0.sum.refusals, usual: RefusedConnection.usual) { [("reason", $0.label)] }
        },
        .counter("martlet_logins_total", "Logins, by backend and result.") {
            MeasuredBroker.samples($0.sum.logins, usual: LoginTally.usual) {
                [("backend", $0.backend), ("result", $0.result.rawValue)]
            }
        },
        .counter("martlet_login_source_answers_total", "Answers of the sources of logins, by source and result.") {
            $0.condition.loginSources.flatMap { source in
                [
                    ("allowed", source.allowed), ("refused", source.refused), ("unknown", source.unknown),
                    ("failed", source.failed), ("remembered", source.remembered),
                ].map { ([("source", source.name), ("result", $0.0)], Double($0.1)) }
            }
        },
        .gauge("martlet_login_source_down", "1 while a source of logins cannot be asked.") {
            $0.condition.loginSources.map { ([("source", $0.name)], $0.isDown ? 1 : 0) }
        },
        .counter("martlet_disconnects_total", "Clients that were disconnected, by reason.") { broker in
            let listeners = broker.listeners
            let open = listeners.indices.filter { listeners[$0].application != .httpAPI && !listeners[$0].isClosed }
            return MeasuredBroker.samples(broker.disconnects, usual: open.flatMap { DisconnectTally.usual(of: $0) }) {
                [("listener", listeners.indices.contains($0.listener) ? listeners[$0.listener].name : ""), ("reason", $0.label)]
            }
        },
        .counter("martlet_access_denied_total", "Actions that access rules denied.") { broker in
            DeniedAction.allCases.map { ([("action", $0.rawValue)], Double(broker.sum.denials[$0])) }
        },
        .counter("martlet_user_bound_refused_total", "What users were refused because they had as many as they may.") { broker in
            UserBound.allCases.map { ([("bound", $0.rawValue)], Double(broker.sum.userRefusals[$0])) }
        },
    ]

    private static let topics: [MetricFamily] = [
        .counter("martlet_listener_messages_dropped_total", "Messages that were dropped, by the client's listener.") {
            $0.drops.flatMap { name, drops in
                DropReason.allCases.map { ([("listener", name), ("reason", $0.label)], Double(drops[$0])) }
            }
        },
        .fields(of: Administration.topicMetricResource) {
            $0.topics.map { ([("filter", "\($0.filter)")], MeasuredTopic(row: $0, since: 0, rates: (0, 0, 0))) }
        },
    ]

    private static let times: [MetricFamily] = [
        .histogram("martlet_acknowledge_seconds", "Time from reading a PUBLISH to writing its acknowledgement.") {
            $0.latencies { if case .acknowledge(let qos) = $0 { [("qos", "\(qos.rawValue)")] } else { nil } }
        },
        .histogram(
            "martlet_delivery_seconds", "Time from reading a PUBLISH to writing it to its receivers; one message in 64."
        ) { $0.latencies { if case .delivery(let qos) = $0 { [("qos", "\(qos.rawValue)")] } else { nil } } },
        .histogram("martlet_queue_wait_seconds", "Time that messages waited in clients' queues.") {
            $0.latencies { $0 == .queueWait ? [] : nil }
        },
        .histogram("martlet_store_commit_seconds", "Time that the store takes to commit a batch.") {
            $0.latencies { $0 == .storeCommit ? [] : nil }
        },
        .histogram("martlet_login_seconds", "Time from CONNECT to the result of the login, by backend.") {
            $0.latencies { if case .login(let backend) = $0 { [("backend", backend)] } else { nil } }
        },
        .histogram("martlet_login_source_seconds", "Time that a source of logins took to answer.") {
            $0.condition.loginSources.map { ([("source", $0.name)], $0.latency, nil) }
        },
        .histogram("martlet_tls_handshake_seconds", "Time from a connection to its first packet, TLS handshake included.") {
            $0.latencies { $0 == .tlsHandshake ? [] : nil }
        },
        .histogram("martlet_loop_turn_seconds", "Time of an event loop's turns, without waiting.") {
            $0.shards.enumerated().compactMap { index, shard in
                shard.latencies.histograms[.loopTurn].map { ([("loop", "\(index)")], $0, nil) }
            }
        },
    ]

    private static let bridges: [MetricFamily] = [
        .fields(of: BridgeAnswers.bridgeResource) { $0.bridges.map { ([("bridge", $0.name)], $0) } },
        .gauge("martlet_bridge_state", "1 for the state of a bridge, 0 for the others.") {
            $0.bridges.flatMap { bridge in
                AdministeredBridge.State.allCases.map { state in
                    ([("bridge", bridge.name), ("state", state.rawValue)], bridge.state == state ? 1.0 : 0.0)
                }
            }
        },
    ]

    private static let alarms: [MetricFamily] = [
        .gauge("martlet_alarms", "Alarms that are raised, by what they are about.") { broker in
            AlarmKind.allCases.map {
                let severity = $0.isCritical ? "critical" : "warning"
                return ([("name", $0.rawValue), ("severity", severity)], Double(broker.alarms.count(of: $0)))
            }
        }
    ]

    private static let cluster: [MetricFamily] = [
        .fields(of: Administration.clusterFigures) { broker in broker.condition.cluster.map { [(broker.clusterLabels, $0)] } ?? []
        },
        .gauge("martlet_cluster_nodes", "Nodes that this node knows of, itself included, by state.") { broker in
            guard let cluster = broker.condition.cluster else { return [] }
            return ClusterMember.State.allCases.map { state in
                (broker.clusterLabels + [("state", state.rawValue)], Double(cluster.members.count { $0.state == state }))
            }
        },
        .gauge("martlet_cluster_node_up", "1 while a node is up.") {
            $0.nodes.map { ($0.labels, $0.member.state == .up ? 1 : 0) }
        },
        .gauge("martlet_cluster_node_draining", "1 while a node is being drained.") {
            $0.nodes.map { ($0.labels, $0.member.isThere && $0.member.summary?.isDraining == true ? 1 : 0) }
        },
        .gauge(
            "martlet_cluster_node_clock_offset_seconds",
            "Seconds that the clock of another node is ahead of this node's, negative if it is behind."
        ) { $0.nodes.compactMap { node in node.member.clockOffset.map { (node.labels, Double($0) / 1000) } } },
        .gauge("martlet_cluster_node_info", "A node's state, version and address; always 1.") {
            $0.nodes.map { node in
                let summary = node.member.summary
                let labels = [
                    ("state", node.member.state.rawValue), ("version", summary?.version ?? ""), ("address", summary?.address ?? ""),
                ]
                return (node.labels + labels, 1)
            }
        },
        .gauge(
            "martlet_cluster_server_synced", "1 for a server that syncs what it acknowledges (sync_interval: always)."
        ) { broker in
            (broker.condition.cluster?.servers ?? []).compactMap { server in
                if case .unknown = server.syncs { return nil }
                return (broker.clusterLabels + [("server", server.address)], server.syncs == .always ? 1 : 0)
            }
        },
    ]

    private static let requests: [MetricFamily] = [
        .counter("martlet_http_requests_total", "Requests over HTTP.") {
            $0.requests.counts.sorted {
                ($0.key.route, $0.key.method, $0.key.status) < ($1.key.route, $1.key.method, $1.key.status)
            }.map { ([("route", $0.key.route), ("method", $0.key.method), ("code", "\($0.key.status)")], Double($0.value)) }
        },
        .histogram("martlet_http_request_seconds", "Time from an HTTP request to its answer.") {
            $0.requests.durations.sorted { $0.key < $1.key }.map {
                ([("route", $0.key)], $0.value.histogram, $0.value.exemplar)
            }
        },
    ]
}

extension Administration {
    /// What the broker holds now.
    fileprivate static let heldResource = Resource<ShardStatistics>(
        nil,
        [
            .measured(.clientsConnected).gauge(sessions.name, sessions.help, ("state", "connected")),
            .measured(.clientsDisconnected).gauge(sessions.name, sessions.help, ("state", "absent")),
            .measured(.subscriptions).gauge("martlet_subscriptions", "Subscriptions.", ("kind", "plain")),
            .measured(.sharedSubscriptions).gauge("martlet_subscriptions", "Subscriptions.", ("kind", "shared")),
            .measured(.retainedMessages).gauge("martlet_retained_messages", "Retained messages."),
            .measured(.messagesStored).gauge(
                "martlet_stored_messages", "Messages that the broker stores, retained or queued."),
            .measured(.bytesStored).gauge("martlet_stored_bytes", "Bytes of these messages."),
            .measured(.outputBytes).gauge("martlet_output_bytes", "Bytes in the output buffers of connections."),
            .measured(\.pendingPositions).gauge(
                "martlet_pending_session_positions", "Sessions whose position the cluster's log is to be told."),
        ])

    private static let sessions = (name: "martlet_sessions", help: "Sessions, their clients connected or absent.")

    /// What the store holds.
    fileprivate static let storeFiguresResource = Resource<ShardStatistics>(
        nil,
        [
            .measured(.storeBytes).gauge("martlet_store_bytes", "Bytes of the database that are in use."),
            .measured(.storeRows).gauge("martlet_store_rows", "Records in the database."),
            .measured(.storeCommits).counter("martlet_store_commits_total", "Commits since the store was made."),
        ])

    /// By the names of the exporter that reads `$SYS`, so that boards made for it show this broker.
    private func mosquittoMetrics(_ shards: [ShardStatistics], _ format: MetricText.Format) -> String {
        var text = MetricText(format)
        for (name, value) in systemTopics(ShardStatistics.sum(of: shards)) {
            let metric = "broker_" + String(name.map { $0 == "/" || $0 == " " || $0 == "-" || $0 == "." ? "_" : $0 })
            text.gauge(metric, "$SYS/broker/\(name)", value)
        }
        return text.whole
    }
}
