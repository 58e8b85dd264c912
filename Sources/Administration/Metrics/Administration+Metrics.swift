internal import BrokerModel
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
            "martlet_bridge_state", "1 for the state of a bridge, 0 for the others.",
            bridges.flatMap { bridge in
                AdministeredBridge.State.allCases.map { state in
                    ([("bridge", bridge.name), ("state", state.rawValue)], bridge.state == state ? 1.0 : 0.0)
                }
            })
        text.counter(
            "martlet_bridge_connections_total", "Connections that a bridge has opened.", samples { Double($0.connections) })
        text.counter(
            "martlet_bridge_messages_total", "Messages that a bridge has forwarded.", bothWays(\.messagesOut, \.messagesIn))
        text.counter("martlet_bridge_bytes_total", "Bytes that a bridge has forwarded.", bothWays(\.bytesOut, \.bytesIn))
        text.counter(
            "martlet_bridge_dropped_messages_total", "Messages that a bridge has dropped.", bothWays(\.droppedOut, \.droppedIn))
        text.gauge(
            "martlet_bridge_queued_messages", "Messages queued for the remote broker.", samples { Double($0.queuedMessages) }
        )
        text.gauge("martlet_bridge_queued_bytes", "Their bytes.", samples { Double($0.queuedBytes) })
        text.gauge(
            "martlet_bridge_lag_seconds", "How long the oldest of them has waited.", samples { Double($0.lagMilliseconds) / 1000 })
    }

    private static func write(_ cluster: AdministeredCluster, to text: inout MetricText) {
        let name: MetricText.Labels = [("cluster", cluster.name)]
        text.gauge("martlet_cluster_up", "1 while this node is connected to its cluster.", [(name, cluster.trouble == nil ? 1 : 0)])
        text.gauge("martlet_cluster_other_nodes", "The other nodes of the cluster.", [(name, Double(cluster.otherNodes))])
        text.gauge(
            "martlet_cluster_nodes", "Nodes that this node knows of, itself included, by state.",
            AdministeredNode.State.allCases.map { state in
                (name + [("state", state.rawValue)], Double(cluster.nodes.count { $0.state == state }))
            })
        text.gauge(
            "martlet_cluster_node_up", "1 while a node is up.",
            cluster.nodes.map { (name + [("node", $0.shownName), ("id", $0.identifier)], $0.state == .up ? 1 : 0) })
        text.gauge(
            "martlet_cluster_node_draining", "1 while a node is being drained.",
            cluster.nodes.map {
                (name + [("node", $0.shownName), ("id", $0.identifier)], $0.isThere && $0.figures?.isDraining == true ? 1 : 0)
            })
        text.gauge(
            "martlet_cluster_node_clock_offset_seconds",
            "Seconds that the clock of another node is ahead of this node's, negative if it is behind.",
            cluster.nodes.compactMap { node in
                node.clockOffset.map { (name + [("node", node.shownName), ("id", node.identifier)], $0) }
            })
        text.gauge(
            "martlet_cluster_node_info", "A node's state, version and address; always 1.",
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
            "martlet_cluster_dropped_messages_total", "Messages that could not be sent to other nodes.",
            [(name, Double(cluster.dropped))])
        text.counter(
            "martlet_cluster_second_copies_total", "Messages that came a second time, and were dropped.",
            [(name, Double(cluster.copies))])
        text.counter(
            "martlet_cluster_illegible_messages_total", "Unreadable messages from the cluster's servers.",
            [(name, Double(cluster.illegible))])
        text.counter(
            "martlet_cluster_logged_messages_total",
            "Messages of QoS 1 and 2 of this node's clients that are in the cluster's log.",
            [(name, Double(cluster.logWritten))])
        text.counter(
            "martlet_cluster_unlogged_messages_total",
            "Messages that could not be stored in the cluster's log, and were not acknowledged.",
            [(name, Double(cluster.logFailed))])
        text.counter(
            "martlet_cluster_log_records_total", "Records of the cluster's log that were read.", [(name, Double(cluster.logRead))])
        text.counter(
            "martlet_cluster_lost_log_records_total", "Records of the cluster's log that were deleted before they were read.",
            [(name, Double(cluster.logLost))])
        text.counter(
            "martlet_cluster_moved_sessions_total", "Sessions that moved between nodes, by direction.",
            [
                (name + [("direction", "in")], Double(cluster.sessionsTaken)),
                (name + [("direction", "out")], Double(cluster.sessionsGiven)),
            ])
        text.counter(
            "martlet_cluster_lost_sessions_total", "Sessions that were lost because their node was gone.",
            [(name, Double(cluster.sessionsLost))])
        text.counter(
            "martlet_cluster_restored_sessions_total",
            "Sessions that were restored from the cluster's copy because their node was gone.",
            [(name, Double(cluster.sessionsRestored))])
        text.counter(
            "martlet_cluster_expired_sessions_total", "Sessions that expired after their node was gone.",
            [(name, Double(cluster.sessionsExpired))])
        text.counter(
            "martlet_cluster_adopted_wills_total", "Wills that were published for clients of nodes that were gone.",
            [(name, Double(cluster.willsOfOthers))])
        text.counter(
            "martlet_cluster_refused_claims_total", "Clients refused because it was not known which node has their session.",
            [(name, Double(cluster.claimsRefused))])
        text.counter(
            "martlet_cluster_lost_connections_total", "Connections to the cluster's servers that were lost.",
            [(name, Double(cluster.losses))])
        text.gauge(
            "martlet_cluster_server_synced", "1 for a server that syncs what it acknowledges (sync_interval: always).",
            cluster.servers.compactMap { server in
                if case .unknown = server.syncs { return nil }
                if case .always = server.syncs { return (name + [("server", server.address)], 1) }
                return (name + [("server", server.address)], 0)
            })
        text.gauge(
            "martlet_cluster_refusing_streams", "Streams that are full on the cluster's servers.",
            [(name, Double(cluster.refusingStreams))])
        text.gauge(
            "martlet_cluster_retained_waiting", "Changes of retained messages that the cluster has not confirmed yet.",
            [(name, Double(cluster.retainedWaiting))])
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
        text.counter("martlet_bytes_received_total", "Bytes from clients.", sum.bytesReceived)
        text.counter("martlet_bytes_sent_total", "Bytes to clients.", sum.bytesSent)
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
        text.counter("martlet_sessions_expired_total", "Sessions that expired.", sum.clientsExpired)
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

    /// Counts of listeners that have the same name, because a reload has closed one and opened the other, under the last one's number.
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
        for (name, value) in systemCounts(ShardStatistics.sum(of: shards)) {
            let metric = "broker_" + String(name.map { $0 == "/" || $0 == " " || $0 == "-" || $0 == "." ? "_" : $0 })
            text.gauge(metric, "$SYS/broker/\(name)", value)
        }
        return text.whole
    }
}
