internal import BrokerModel
internal import Cluster
internal import HTTP
internal import MQTTCodec

/// All that is measured.
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
                withTopicMetrics(call) { [self] topics in answer(metrics(shards, drops, topics, format)) }
            }
        }
    }

    private func metrics(_ shards: [ShardStatistics], _ drops: [DropReport], _ topics: [TopicMeterRow], _ format: MetricText.Format)
        -> String
    {
        var text = MetricText(format)
        let sum = ShardStatistics.sum(of: shards)
        writeBroker(sum, to: &text)
        writeTraffic(sum, to: &text)
        text.counter(
            "martlet_listener_messages_dropped_total",
            "Messages that were dropped, by the client's listener.",
            dropsByListener(drops).flatMap { name, drops in
                DropReason.allCases.map { ([("listener", name), ("reason", $0.label)], Double(drops[$0])) }
            })
        Self.write(topics, to: &text)
        writeTimes(shards, sum, to: &text)
        writeBridges(to: &text)
        writeAlarms(to: &text)
        if let cluster = broker.condition.cluster { Self.write(cluster, to: &text) }
        writeRequests(to: &text)
        return text.whole
    }

    private func writeBridges(to text: inout MetricText) {
        let bridges = broker.bridges
        Self.bridgeResource.write(bridges.map { (labels: [("bridge", $0.name)], row: $0) }, to: &text)
        text.gauge(
            "martlet_bridge_state", "1 for the state of a bridge, 0 for the others.",
            bridges.flatMap { bridge in
                AdministeredBridge.State.allCases.map { state in
                    ([("bridge", bridge.name), ("state", state.rawValue)], bridge.state == state ? 1.0 : 0.0)
                }
            })
    }

    private static func write(_ cluster: ClusterStatus, to text: inout MetricText) {
        let name: MetricText.Labels = [("cluster", cluster.name)]
        clusterFigures.write([(labels: name, row: cluster)], to: &text)
        text.gauge(
            "martlet_cluster_nodes", "Nodes that this node knows of, itself included, by state.",
            ClusterMember.State.allCases.map { state in
                (name + [("state", state.rawValue)], Double(cluster.members.count { $0.state == state }))
            })
        let nodes = cluster.members.map { (member: $0, labels: name + [("node", $0.shownName), ("id", $0.node.description)]) }
        text.gauge("martlet_cluster_node_up", "1 while a node is up.", nodes.map { ($0.labels, $0.member.state == .up ? 1 : 0) })
        text.gauge(
            "martlet_cluster_node_draining", "1 while a node is being drained.",
            nodes.map { ($0.labels, $0.member.isThere && $0.member.summary?.isDraining == true ? 1 : 0) })
        text.gauge(
            "martlet_cluster_node_clock_offset_seconds",
            "Seconds that the clock of another node is ahead of this node's, negative if it is behind.",
            nodes.compactMap { node in node.member.clockOffset.map { (node.labels, Double($0) / 1000) } })
        text.gauge(
            "martlet_cluster_node_info", "A node's state, version and address; always 1.",
            nodes.map { node in
                let summary = node.member.summary
                let labels = [
                    ("state", node.member.state.rawValue), ("version", summary?.version ?? ""), ("address", summary?.address ?? ""),
                ]
                return (node.labels + labels, 1)
            })
        text.gauge(
            "martlet_cluster_server_synced", "1 for a server that syncs what it acknowledges (sync_interval: always).",
            cluster.servers.compactMap { server in
                if case .unknown = server.syncs { return nil }
                return (name + [("server", server.address)], server.syncs == .always ? 1 : 0)
            })
    }

    private func writeBroker(_ sum: ShardStatistics, to text: inout MetricText) {
        let (facts, condition) = (broker.facts, broker.condition)
        let listeners = broker.listeners.filter { !$0.isClosed }
        text.gauge("martlet_build_info", "The version of the broker.", [([("version", facts.version)], 1)])
        text.gauge(
            "martlet_start_time_seconds", "When the broker started, in seconds since 1970.", [([], Double(facts.startedAt) / 1000)])
        text.gauge(
            "martlet_connections", "Connections by listener.",
            listeners.map { ([("listener", $0.name), ("protocol", $0.application.rawValue)], Double($0.connections)) })
        text.gauge(
            "martlet_sessions", "Sessions, their clients connected or absent.",
            [
                ([("state", "connected")], Double(sum.clientsConnected)),
                ([("state", "absent")], Double(max(0, sum.clientsTotal - sum.clientsConnected))),
            ])
        text.gauge(
            "martlet_subscriptions", "Subscriptions.",
            [([("kind", "plain")], Double(sum.subscriptions)), ([("kind", "shared")], Double(sum.sharedSubscriptions))])
        text.gauge("martlet_retained_messages", "Retained messages.", sum.retainedMessages)
        text.gauge("martlet_stored_messages", "Messages that the broker stores, retained or queued.", sum.storedMessages)
        text.gauge("martlet_stored_bytes", "Bytes of these messages.", sum.storedBytes)
        text.gauge("martlet_output_bytes", "Bytes in the output buffers of connections.", sum.outputBytes)
        let (bans, made) = (broker.bans.all, broker.bansMade)
        text.gauge(
            "martlet_bans", "Bans in force.",
            BanKind.allCases.map { kind in ([("as", kind.rawValue)], Double(bans.count { $0.target.kind == kind })) })
        text.counter(
            "martlet_bans_total", "Bans that were added.", BanKind.allCases.map { ([("as", $0.rawValue)], Double(made[$0] ?? 0)) })
        if let store = sum.store {
            text.gauge("martlet_store_bytes", "Bytes of the database that are in use.", store.bytes)
            text.gauge("martlet_store_rows", "Records in the database.", store.rows)
            text.counter("martlet_store_commits_total", "Commits since the store was made.", store.commits)
        }
        text.gauge(
            "martlet_store_ready", "1 while the store accepts writes; 1 without a store.",
            condition.store == nil || condition.store == .good ? 1 : 0)
        text.gauge(
            "martlet_certificate_not_after_seconds", "When a certificate expires, in seconds since 1970.",
            listeners.compactMap { listener in
                guard let certificate = listener.certificate, let end = certificate.notAfter else { return nil }
                return ([("listener", listener.name), ("name", certificate.name)], Double(end) / 1000)
            })
        text.gauge("process_resident_memory_bytes", "Memory of the process.", condition.residentBytes)
        text.counter("process_cpu_seconds_total", "Processor time of the process.", [([], condition.processorSeconds)])
        text.gauge("process_open_fds", "Open files of the process.", broker.openFiles)
        text.gauge("process_max_fds", "Files that the process may have open.", broker.openFilesMax)
        if let free = broker.storeFreeBytes {
            text.gauge("martlet_store_free_bytes", "Bytes that are free on the file system of the store.", free)
        }
    }

    private func writeTraffic(_ sum: ShardStatistics, to text: inout MetricText) {
        let types = PacketType.allCases
        text.counter(
            "martlet_packets_received_total", "Packets from clients.",
            types.filter { $0.isSent(by: .client, version: .v5) }.map { ([("type", "\($0)")], Double(sum.packetsReceived[$0])) })
        text.counter(
            "martlet_packets_sent_total", "Packets to clients.",
            types.filter { $0.isSent(by: .server, version: .v5) }.map {
                ([("type", "\($0)")], Double($0 == .publish ? sum.publishSent : sum.packetsSent[$0]))
            })
        text.counter(
            "martlet_messages_received_total", "PUBLISH packets from clients.",
            [QoS.atMostOnce, .atLeastOnce, .exactlyOnce].map {
                ([("qos", "\($0.rawValue)")], Double(sum.messagesReceivedByQoS[$0]))
            })
        text.counter(
            "martlet_messages_sent_total", "PUBLISH packets to clients.",
            [QoS.atMostOnce, .atLeastOnce, .exactlyOnce].map { ([("qos", "\($0.rawValue)")], Double(sum.messagesSentByQoS[$0])) })
        Self.totalsResource.write([(labels: [], row: sum)], to: &text)
        text.counter(
            "martlet_messages_dropped_total", "Messages that were dropped.",
            DropReason.allCases.map { ([("reason", $0.label)], Double(sum.drops[$0])) })
        text.counter(
            "martlet_connections_accepted_total", "Connections that were accepted, by listener.",
            broker.listeners.filter { !$0.isClosed }.compactMap { listener in
                listener.connectionsAccepted.map {
                    ([("listener", listener.name), ("protocol", listener.application.rawValue)], Double($0))
                }
            })
        writeLogins(sum, to: &text)
    }

    /// The counts of clients that came in, that did not, and that went.
    private func writeLogins(_ sum: ShardStatistics, to text: inout MetricText) {
        /// - Parameter usual: what is told of though it has not happened yet, so that its first time shows as a rise.
        func samples<Key>(_ tally: Tally<Key>, usual: [Key], _ labels: (Key) -> MetricText.Labels) -> [(MetricText.Labels, Double)]
        {
            Set(tally.counts.keys).union(usual).map { (labels($0), Double(tally[$0])) }.sorted { "\($0.0)" < "\($1.0)" }
        }
        let listeners = broker.listeners
        let names = listeners.map(\.name)
        let open = listeners.indices.filter { listeners[$0].application != .httpAPI && !listeners[$0].isClosed }
        text.counter(
            "martlet_connections_refused_total", "Connections that were refused, before or with CONNACK.",
            samples(sum.refusals, usual: RefusedConnection.usual) { [("reason", $0.label)] })
        text.counter(
            "martlet_logins_total", "Logins, by backend and result.",
            samples(sum.logins, usual: LoginTally.usual) { [("backend", $0.backend), ("result", $0.result.rawValue)] })
        text.counter(
            "martlet_disconnects_total", "Clients that were disconnected, by reason.",
            samples(Self.byName(sum.disconnects, names), usual: open.flatMap { DisconnectTally.usual(of: $0) }) {
                [("listener", names.indices.contains($0.listener) ? names[$0.listener] : ""), ("reason", $0.label)]
            })
        text.counter(
            "martlet_access_denied_total", "Actions that access rules denied.",
            DeniedAction.allCases.map { ([("action", $0.rawValue)], Double(sum.denials[$0])) })
    }

    /// Counts of listeners that have the same name, because a reload has closed one and opened the other, under the
    /// last one's number.
    private static func byName(_ tally: Tally<DisconnectTally>, _ names: [String]) -> Tally<DisconnectTally> {
        guard Set(names).count < names.count else { return tally }
        var sum = Tally<DisconnectTally>()
        for (key, count) in tally.counts {
            let place = names.indices.contains(key.listener) ? names.lastIndex(of: names[key.listener]) : nil
            sum.add(DisconnectTally(listener: place ?? key.listener, reason: key.reason), count)
        }
        return sum
    }

    private func writeTimes(_ shards: [ShardStatistics], _ sum: ShardStatistics, to text: inout MetricText) {
        func samples(_ labels: (Latency) -> MetricText.Labels?) -> [(MetricText.Labels, Histogram, MetricText.Exemplar?)] {
            sum.latencies.histograms.compactMap { latency, histogram in labels(latency).map { ($0, histogram, nil) } }
                .sorted { "\($0.0)" < "\($1.0)" }
        }
        text.histogram(
            "martlet_acknowledge_seconds", "Time from reading a PUBLISH to writing its acknowledgement.",
            samples { if case .acknowledge(let qos) = $0 { [("qos", "\(qos.rawValue)")] } else { nil } })
        text.histogram(
            "martlet_delivery_seconds", "Time from reading a PUBLISH to writing it to its receivers; one message in 64.",
            samples { if case .delivery(let qos) = $0 { [("qos", "\(qos.rawValue)")] } else { nil } })
        text.histogram(
            "martlet_queue_wait_seconds", "Time that messages waited in clients' queues.", samples { $0 == .queueWait ? [] : nil })
        text.histogram(
            "martlet_store_commit_seconds", "Time that the store takes to commit a batch.",
            samples { $0 == .storeCommit ? [] : nil })
        text.histogram(
            "martlet_login_seconds", "Time from CONNECT to the result of the login, by backend.",
            samples { if case .login(let backend) = $0 { [("backend", backend)] } else { nil } })
        text.histogram(
            "martlet_tls_handshake_seconds", "Time from a connection to its first packet, TLS handshake included.",
            samples { $0 == .tlsHandshake ? [] : nil })
        text.histogram(
            "martlet_loop_turn_seconds", "Time of an event loop's turns, without waiting.",
            shards.enumerated().compactMap { index, shard in
                shard.latencies.histograms[.loopTurn].map { ([("loop", "\(index)")], $0, nil) }
            })
    }

    private func writeRequests(to text: inout MetricText) {
        let counts = requestCounts.counts.sorted {
            ($0.key.route, $0.key.method, $0.key.status) < ($1.key.route, $1.key.method, $1.key.status)
        }
        text.counter(
            "martlet_http_requests_total", "Requests over HTTP.",
            counts.map { ([("route", $0.key.route), ("method", $0.key.method), ("code", "\($0.key.status)")], Double($0.value)) })
        text.histogram(
            "martlet_http_request_seconds", "Time from an HTTP request to its answer.",
            requestCounts.durations.sorted { $0.key < $1.key }.map { ([("route", $0.key)], $0.value.histogram, $0.value.exemplar) })
    }

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
