internal import BrokerCore
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
            "Messages that did not get where they were going, by the listener of the client that they concern.",
            dropsByListener(drops).flatMap { name, drops in
                DropReason.allCases.map { ([("listener", name), ("reason", $0.label)], Double(drops[$0])) }
            })
        Self.write(topics, to: &text)
        writeTimes(shards, sum, to: &text)
        writeBridges(to: &text)
        if let cluster = broker.condition.cluster { Self.write(cluster, to: &text) }
        writeRequests(to: &text)
        return text.whole
    }

    private func writeBridges(to text: inout MetricText) {
        let bridges = broker.bridges
        func samples(_ value: (AdministeredBridge) -> Double) -> [(MetricText.Labels, Double)] {
            bridges.map { ([("bridge", $0.name)], value($0)) }
        }
        func bothWays(_ out: (AdministeredBridge) -> UInt64, _ into: (AdministeredBridge) -> UInt64) -> [(
            MetricText.Labels, Double
        )] {
            bridges.flatMap {
                [
                    ([("bridge", $0.name), ("direction", "out")], Double(out($0))),
                    ([("bridge", $0.name), ("direction", "in")], Double(into($0))),
                ]
            }
        }
        text.gauge("martlet_bridge_up", "Whether a bridge is connected.", samples { $0.isConnected ? 1 : 0 })
        text.gauge(
            "martlet_bridge_state", "1 for the state that a bridge is in.",
            bridges.flatMap { bridge in
                AdministeredBridge.State.allCases.map { state in
                    ([("bridge", bridge.name), ("state", state.rawValue)], bridge.state == state ? 1.0 : 0.0)
                }
            })
        text.counter("martlet_bridge_connections_total", "Connections that a bridge has made.", samples { Double($0.connections) })
        text.counter(
            "martlet_bridge_messages_total", "Messages that have crossed a bridge.", bothWays(\.messagesOut, \.messagesIn))
        text.counter("martlet_bridge_bytes_total", "Bytes that have crossed a bridge.", bothWays(\.bytesOut, \.bytesIn))
        text.counter(
            "martlet_bridge_dropped_messages_total", "Messages that a bridge could not carry.", bothWays(\.droppedOut, \.droppedIn))
        text.gauge(
            "martlet_bridge_queued_messages", "Messages that wait here for the other broker.", samples { Double($0.queuedMessages) }
        )
        text.gauge("martlet_bridge_queued_bytes", "Their bytes.", samples { Double($0.queuedBytes) })
        text.gauge(
            "martlet_bridge_lag_seconds", "How long the oldest of them has waited.", samples { Double($0.lagMilliseconds) / 1000 })
    }

    private static func write(_ cluster: AdministeredCluster, to text: inout MetricText) {
        let name: MetricText.Labels = [("cluster", cluster.name)]
        text.gauge("martlet_cluster_up", "Whether messages are carried to other nodes.", [(name, cluster.trouble == nil ? 1 : 0)])
        text.gauge("martlet_cluster_other_nodes", "The other nodes of the cluster.", [(name, Double(cluster.otherNodes))])
        text.gauge(
            "martlet_cluster_nodes", "Nodes that this one knows of, itself among them, by how they are.",
            AdministeredNode.State.allCases.map { state in
                (name + [("state", state.rawValue)], Double(cluster.nodes.count { $0.state == state }))
            })
        text.gauge(
            "martlet_cluster_node_up", "Whether a node has been heard of a moment ago.",
            cluster.nodes.map { (name + [("node", $0.shownName), ("id", $0.identifier)], $0.state == .up ? 1 : 0) })
        text.gauge(
            "martlet_cluster_node_draining", "Whether a node sends its clients away.",
            cluster.nodes.map {
                (name + [("node", $0.shownName), ("id", $0.identifier)], $0.isThere && $0.figures?.isDraining == true ? 1 : 0)
            })
        text.gauge(
            "martlet_cluster_node_clock_offset_seconds",
            "How far the clock of another node is ahead of this node's, less than 0 for behind.",
            cluster.nodes.compactMap { node in
                node.clockOffset.map { (name + [("node", node.shownName), ("id", node.identifier)], $0) }
            })
        text.gauge(
            "martlet_cluster_node_info", "What a node is, its state and version.",
            cluster.nodes.map {
                (
                    name + [
                        ("node", $0.shownName), ("id", $0.identifier), ("state", $0.state.rawValue),
                        ("version", $0.figures?.version ?? ""),
                        ("address", $0.figures?.address ?? ""),
                    ], 1
                )
            })
        text.counter(
            "martlet_cluster_messages_total", "Messages to and from other nodes.",
            [
                (name + [("direction", "out")], Double(cluster.messagesOut)),
                (name + [("direction", "in")], Double(cluster.messagesIn)),
            ])
        text.counter(
            "martlet_cluster_dropped_messages_total", "Messages that did not leave for other nodes.",
            [(name, Double(cluster.dropped))])
        text.counter(
            "martlet_cluster_second_copies_total", "Messages that came a second time, and were dropped.",
            [(name, Double(cluster.copies))])
        text.counter(
            "martlet_cluster_illegible_messages_total", "What came from the cluster's servers and cannot be read.",
            [(name, Double(cluster.illegible))])
        text.counter(
            "martlet_cluster_logged_messages_total",
            "Messages of QoS 1 and 2 of this node's clients that are in the cluster's log.",
            [(name, Double(cluster.logWritten))])
        text.counter(
            "martlet_cluster_unlogged_messages_total",
            "Messages that did not get into the cluster's log, and were not acknowledged.",
            [(name, Double(cluster.logFailed))])
        text.counter(
            "martlet_cluster_log_records_total", "Records of the cluster's log that were read.", [(name, Double(cluster.logRead))])
        text.counter(
            "martlet_cluster_lost_log_records_total", "Records of the cluster's log that had gone before they were read.",
            [(name, Double(cluster.logLost))])
        text.counter(
            "martlet_cluster_moved_sessions_total", "Sessions that went from node to node, by direction.",
            [
                (name + [("direction", "in")], Double(cluster.sessionsTaken)),
                (name + [("direction", "out")], Double(cluster.sessionsGiven)),
            ])
        text.counter(
            "martlet_cluster_lost_sessions_total", "Sessions that began anew because the node that kept them was gone.",
            [(name, Double(cluster.sessionsLost))])
        text.counter(
            "martlet_cluster_restored_sessions_total",
            "Sessions that were taken up from what the cluster has stored of them, because the node that kept them was gone.",
            [(name, Double(cluster.sessionsRestored))])
        text.counter(
            "martlet_cluster_expired_sessions_total", "Sessions that have expired after the node that kept them was gone.",
            [(name, Double(cluster.sessionsExpired))])
        text.counter(
            "martlet_cluster_adopted_wills_total", "Wills that were published for clients of nodes that were gone.",
            [(name, Double(cluster.willsOfOthers))])
        text.counter(
            "martlet_cluster_refused_claims_total", "Clients that were refused because nobody could say who keeps their session.",
            [(name, Double(cluster.claimsRefused))])
        text.counter(
            "martlet_cluster_lost_connections_total", "Connections to the cluster's servers that were lost.",
            [(name, Double(cluster.losses))])
        text.gauge(
            "martlet_cluster_server_synced", "Whether a server of the cluster brings to its disk what it acknowledges.",
            cluster.servers.compactMap { server in
                if case .unknown = server.syncs { return nil }
                if case .always = server.syncs { return (name + [("server", server.address)], 1) }
                return (name + [("server", server.address)], 0)
            })
        text.gauge(
            "martlet_cluster_refusing_streams", "Streams for whose records the cluster's servers have no room.",
            [(name, Double(cluster.refusingStreams))])
        text.gauge(
            "martlet_cluster_retained_waiting", "Changes of retained messages that the cluster has not confirmed yet.",
            [(name, Double(cluster.retainedWaiting))])
    }

    private func writeBroker(_ sum: ShardStatistics, to text: inout MetricText) {
        let (facts, condition, listeners) = (broker.facts, broker.condition, broker.listeners)
        text.gauge("martlet_build_info", "The version of the broker.", [([("version", facts.version)], 1)])
        text.gauge("martlet_start_time_seconds", "When the broker started, since 1970.", [([], Double(facts.startedAt) / 1000)])
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
        text.gauge("martlet_stored_messages", "Messages that the broker holds, for retaining or for clients.", sum.storedMessages)
        text.gauge("martlet_stored_bytes", "Bytes of these messages.", sum.storedBytes)
        text.gauge("martlet_output_bytes", "Bytes that wait for connections with room.", sum.outputBytes)
        let (bans, made) = (broker.bans.all, broker.bansMade)
        text.gauge(
            "martlet_bans", "Bans in force.",
            BanKind.allCases.map { kind in ([("as", kind.rawValue)], Double(bans.count { $0.target.kind == kind })) })
        text.counter(
            "martlet_bans_total", "Bans that were made.", BanKind.allCases.map { ([("as", $0.rawValue)], Double(made[$0] ?? 0)) })
        if let store = sum.store {
            text.gauge("martlet_store_bytes", "Bytes of the database that are in use.", store.bytes)
            text.gauge("martlet_store_rows", "Records in the database.", store.rows)
            text.counter("martlet_store_commits_total", "Commits since the store was made.", store.commits)
        }
        text.gauge(
            "martlet_store_ready", "Whether the store takes what it is given; without one, 1.",
            condition.store == nil || condition.store == .good ? 1 : 0)
        text.gauge(
            "martlet_certificate_not_after_seconds", "When a certificate ends, since 1970.",
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
        text.counter("martlet_bytes_received_total", "Bytes from clients.", sum.bytesReceived)
        text.counter("martlet_bytes_sent_total", "Bytes to clients.", sum.bytesSent)
        text.counter(
            "martlet_messages_dropped_total", "Messages that did not get where they were going.",
            DropReason.allCases.map { ([("reason", $0.label)], Double(sum.drops[$0])) })
        text.counter(
            "martlet_connections_accepted_total", "Connections that were accepted, by listener.",
            broker.listeners.compactMap { listener in
                listener.connectionsAccepted.map {
                    ([("listener", listener.name), ("protocol", listener.application.rawValue)], Double($0))
                }
            })
        writeLogins(sum, to: &text)
        text.counter("martlet_sessions_expired_total", "Sessions whose time was over.", sum.clientsExpired)
    }

    /// Who came in, who did not, and who went.
    private func writeLogins(_ sum: ShardStatistics, to text: inout MetricText) {
        /// - Parameter usual: what is told of though it has not happened yet, so that its first time shows as a rise.
        func samples<Key>(_ tally: Tally<Key>, usual: [Key], _ labels: (Key) -> MetricText.Labels) -> [(MetricText.Labels, Double)]
        {
            Set(tally.counts.keys).union(usual).map { (labels($0), Double(tally[$0])) }.sorted { "\($0.0)" < "\($1.0)" }
        }
        let listeners = broker.listeners
        let names = listeners.map(\.name)
        let open = listeners.indices.filter { listeners[$0].application != .httpAPI }
        text.counter(
            "martlet_connections_refused_total", "Connections that came to nothing, turned away as they came or with CONNACK.",
            samples(sum.refusals, usual: RefusedConnection.usual) { [("reason", $0.label)] })
        text.counter(
            "martlet_logins_total", "Logins that were decided, by who decides.",
            samples(sum.logins, usual: LoginTally.usual) { [("backend", $0.backend), ("result", $0.result.rawValue)] })
        text.counter(
            "martlet_disconnects_total", "Clients whose connections have ended.",
            samples(sum.disconnects, usual: open.flatMap { DisconnectTally.usual(of: $0) }) {
                [("listener", names.indices.contains($0.listener) ? names[$0.listener] : ""), ("reason", $0.label)]
            })
        text.counter(
            "martlet_access_denied_total", "What the access rules did not let clients do.",
            DeniedAction.allCases.map { ([("action", $0.rawValue)], Double(sum.denials[$0])) })
    }

    private func writeTimes(_ shards: [ShardStatistics], _ sum: ShardStatistics, to text: inout MetricText) {
        func samples(_ labels: (Latency) -> MetricText.Labels?) -> [(MetricText.Labels, Histogram, MetricText.Exemplar?)] {
            sum.latencies.histograms.compactMap { latency, histogram in labels(latency).map { ($0, histogram, nil) } }
                .sorted { "\($0.0)" < "\($1.0)" }
        }
        text.histogram(
            "martlet_acknowledge_seconds", "From a PUBLISH that is read to its acknowledgement that is written.",
            samples { if case .acknowledge(let qos) = $0 { [("qos", "\(qos.rawValue)")] } else { nil } })
        text.histogram(
            "martlet_delivery_seconds", "From a PUBLISH that is read to the message written to its receivers; one message in 64.",
            samples { if case .delivery(let qos) = $0 { [("qos", "\(qos.rawValue)")] } else { nil } })
        text.histogram(
            "martlet_queue_wait_seconds", "How long messages stood in clients' queues.", samples { $0 == .queueWait ? [] : nil })
        text.histogram(
            "martlet_store_commit_seconds", "From a batch given to the store to its confirmation.",
            samples { $0 == .storeCommit ? [] : nil })
        text.histogram(
            "martlet_login_seconds", "From CONNECT to the decision, by who decides.",
            samples { if case .login(let backend) = $0 { [("backend", backend)] } else { nil } })
        text.histogram(
            "martlet_tls_handshake_seconds", "From a connection to its first packet.", samples { $0 == .tlsHandshake ? [] : nil })
        text.histogram(
            "martlet_loop_turn_seconds", "Turns of a loop, without the wait between them.",
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
            "martlet_http_request_seconds", "From a request to its answer.",
            requestCounts.durations.sorted { $0.key < $1.key }.map { ([("route", $0.key)], $0.value.histogram, $0.value.exemplar) })
    }

    /// By the names of the exporter that reads `$SYS`, so that boards made for it show this broker.
    private func mosquittoMetrics(_ shards: [ShardStatistics], _ format: MetricText.Format) -> String {
        var text = MetricText(format)
        for (name, value) in systemCounts(ShardStatistics.sum(of: shards)) {
            let metric = "broker_" + String(name.map { $0 == "/" || $0 == " " || $0 == "-" || $0 == "." ? "_" : $0 })
            text.gauge(metric, "$SYS/broker/\(name)", value)
        }
        return text.whole
    }
}
