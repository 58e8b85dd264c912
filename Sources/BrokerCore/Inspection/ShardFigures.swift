public import BrokerModel
public import MQTTCodec

/// Counting, and telling of it below `$SYS`.
struct ShardFigures {
    let shard: BrokerShard

    func beginSystemTopics() {
        shard.inspection.systemReport.begin(now: shard.now)
        // The first values come at once: who subscribes right after the start finds them. The shell tells of heap and
        // store soon after.
        systemTimerFired(dueWithin: 1000)
    }

    /// The interval is over: asks the other shards for their counts, and arms the timer for the next time.
    ///
    /// - Parameter milliseconds: when that is at the latest; nil for when the interval has it.
    func systemTimerFired(dueWithin milliseconds: UInt64? = nil) {
        guard shard.settings.systemIntervalSeconds > 0 else {
            // Switched off meanwhile.
            shard.inspection.systemReport.end()
            return
        }
        let due = SystemReport.nextTime(
            after: shard.now, intervalSeconds: shard.settings.systemIntervalSeconds,
            wallClockOffset: shard.settings.wallClockOffsetMilliseconds)
        _ = shard.wheel.arm(
            TimerSubject(kind: .statistics, index: 0, generation: 0), at: milliseconds.map { min(due, shard.now + $0) } ?? due)
        guard shard.inspection.systemReport.beginRound(shard.currentStatistics(), others: shard.shardCount - 1) else { return }
        if shard.shardCount == 1 { publishSystemTopics() } else { shard.messaging.sendToOthers(.statisticsRequest) }
    }

    func receivedStatistics(_ statistics: ShardStatistics) {
        if shard.inspection.systemReport.receivedCounts(statistics) { publishSystemTopics() }
    }

    private func publishSystemTopics() {
        publishTopics(
            shard.inspection.systemReport.changes(
                now: shard.now, version: shard.settings.versionText, health: shard.journal?.health))
    }

    /// Tells of the store's state as soon as it has changed.
    func publishStoreHealth(_ health: StoreHealth) { publishTopics(shard.inspection.systemReport.changes(health)) }

    private func publishTopics(_ changes: [(topic: String, value: String)]) {
        for (topic, value) in changes { publishFromBroker(Array(topic.utf8), Array(value.utf8)) }
    }

    /// Counts a login that was decided.
    func count(_ result: LoginTally.Result, _ connection: Connection) {
        guard !connection.client.isLocal else { return }
        shard.statistics.logins.count(LoginTally(loginBackend(of: connection), result))
    }

    /// The name of the authenticator that decides on a client, as the counts of logins have it.
    private func loginBackend(of connection: Connection) -> String {
        let (extras, policy) = (connection.extras, shard.settings.policy(of: connection.info.listener))
        if let method = extras?.authenticationMethod ?? extras?.pendingConnect?.packet.properties.authenticationMethod {
            return shard.settings.authenticationMethods.contains(method) ? "\(method)" : "unknown_method"
        }
        if policy.userNameSource != .login, !policy.requiresPasswordToo {
            return connection.info.preSharedKeyIdentity == nil ? "certificate" : "pre_shared_key"
        }
        let hasName = (extras?.pendingConnect?.userName ?? connection.client.userName) != nil
        return policy.checksPasswords && (hasName || !policy.allowsAnonymous) ? policy.passwordBackend : "anonymous"
    }

    /// Publishes a message of the broker's own. mosquitto's have QoS 2.
    func publishFromBroker(_ topic: [UInt8], _ payload: [UInt8], retain: Bool = true, qos: QoS = .exactlyOnce) {
        topic.withUnsafeBytes { topic in
            payload.withUnsafeBytes { payload in
                var publication = Publication(
                    topic: topic, properties: UnsafeRawBufferPointer(start: nil, count: 0), payload: payload, qos: qos,
                    retain: retain, expiresAt: Message.neverExpires, publisher: 0)
                shard.publishing.publish(&publication)
            }
        }
    }
}

extension BrokerShard {
    /// What this shard has counted and holds.
    public func currentStatistics() -> ShardStatistics {
        var current = statistics
        current.connections = connections.count
        current.outputBytes = connections.all.reduce(0) { $0 + ($1.pace.isBlocked ? $1.output.pendingBytes : 0) }
        current.clientsTotal = sessions.count
        current.slowClients = slowClients.slowClientCount
        current.pendingPositions = cluster?.moves?.progress.count ?? 0
        current.retainedMessages = retained.count
        current.storedMessages = ledger.count
        current.storedBytes = ledger.byteCount
        inspection.systemReport.complete(&current)
        return current
    }

    /// The statistics as they are now, with the latencies that were measured.
    public func measuredStatistics() -> ShardStatistics {
        var current = currentStatistics()
        current.latencies = inspection.latencies.report()
        return current
    }

    /// The turn's output is written: what came and went in it took so long. From the shell, which has the clock.
    ///
    /// - Parameters:
    ///   - began: when the turn did, in microseconds, as `advance` was told.
    ///   - ended: now.
    public func turnEnded(began: UInt64, ended: UInt64) {
        inspection.latencies.turnEnded(
            began: began, ended: ended, pubacks: statistics.packetsSent[.puback], pubrecs: statistics.packetsSent[.pubrec])
    }

    /// A name as one level of a topic: `%`, `/`, `+`, `#` and control characters become `%XX`.
    public static func topicLevel(of name: EncodedString) -> String {
        String(decoding: PresenceMessage.level(of: name.bytes), as: UTF8.self)
    }

    /// Publishes a value below `$SYS`, retained; an empty one takes it back.
    public func publishSystemTopic(_ topic: String, _ value: String) {
        figures.publishFromBroker(Array(topic.utf8), Array(value.utf8))
    }

    /// Publishes a line of the log; `topic` lies below `$SYS/broker/log/`.
    public func publishLogLine(topic: String, text: String) {
        figures.publishFromBroker(Array(topic.utf8), Array(text.utf8), retain: false)
    }

    /// Takes in how many bytes of heap the process uses, for `$SYS`.
    public func recordHeap(byteCount: Int) {
        inspection.systemReport.record(heapBytes: byteCount)
    }

    /// Takes in what the store holds, for `$SYS`; to the first shard.
    public func recordStore(_ figures: StoreFigures) {
        inspection.systemReport.record(figures)
    }

    /// Counts a connection that the shell has turned away as it came.
    public func connectionRefused(_ reason: RefusedConnection) {
        statistics.connectionsRefused &+= 1
        statistics.refusals.count(reason)
    }

    /// Counts a connection that the shell has ended before it said a word of MQTT, for what its layers have found.
    ///
    /// - Parameters:
    ///   - reason: which layer.
    ///   - isOfLogin: whether it was about who the peer is.
    public func layerRefused(_ reason: RefusedConnection, isOfLogin: Bool) {
        statistics.refusals.count(reason)
        if isOfLogin { statistics.logins.count(LoginTally("certificate", .refused)) }
    }
}
