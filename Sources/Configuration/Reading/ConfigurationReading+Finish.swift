extension ConfigurationReading {
    /// Completes what was read, checks what concerns more than one line, and returns all of it.
    mutating func finish(ports: [UInt16]) -> ConfigurationResult {
        applyCompatibility()
        applyProfile()
        applyEnvironment()
        distributePlugins()
        warnOfIdleValues()
        readFirstUser()
        resolveListeners(ports: ports)
        OpeningCheck(lines: places.lines, listeners: listeners).run(log: &log)
        for (bridge, position) in zip(configuration.bridges, bridgePositions) {
            BridgeCheck(bridge: bridge, position: position).run(log: &log)
        }
        warnOfBridgeLoops()
        let given = ConfigurationOption.clusterOptions.compactMap { option in position(of: option.name).map { (option.name, $0) } }
        ClusterCheck(cluster: configuration.cluster, positions: Dictionary(uniqueKeysWithValues: given)).run(log: &log)
        return ConfigurationResult(configuration: configuration, diagnostics: log.sorted, places: places)
    }

    /// Where mosquitto 2.0 has other defaults than 2.1, and the file asks for them.
    private mutating func applyCompatibility() {
        guard configuration.general.compatibility == .version2_0 else { return }
        if !wasGiven("max_packet_size") { configuration.limits.packetBytesMax = nil }
        if !wasGiven("max_keepalive") { configuration.limits.keepAliveSecondsMax = 65535 }
        if !wasGiven("allow_duplicate_messages") { configuration.messaging.allowsDuplicateMessages = false }
    }

    /// The profile's lines, where the file has none of its own.
    private mutating func applyProfile() {
        for (name, value) in configuration.general.profile?.lines ?? [] where !wasGiven(name) {
            guard case .global(let setter)? = ConfigurationOption.named(name)?.action,
                setter.set(value, &configuration, true) == nil
            else { preconditionFailure("the profile's line \(name) \(value)") }
        }
    }

    /// Warns of values that ask for nothing that happens here, of options that work with other values.
    private mutating func warnOfIdleValues() {
        if let position = position(of: "set_tcp_nodelay"), !configuration.general.disablesTCPDelay {
            log.warning(
                "false has no effect here: packets always leave without a delay, those of one turn together.", at: position,
                option: "set_tcp_nodelay")
        }
        let isNode = configuration.cluster.isEnabled
        let threadsMax = isNode ? Limits.nodeThreadsMax : Limits.threadsMax
        if let position = position(of: "martlet_threads"), let threads = configuration.general.threads, threads > threadsMax {
            log.warning(
                "\(threads) event loops are configured, and \(isNode ? "a node of a cluster has" : "there are") at most \(threadsMax); "
                    + "\(threadsMax) are run.", at: position, option: "martlet_threads")
        }
    }

    private mutating func applyEnvironment() {
        guard !wasGiven("persistence_location"), let location = environment["MOSQUITTO_PERSISTENCE_LOCATION"], !location.isEmpty
        else { return }
        configuration.persistence.location = location
    }

    private mutating func readFirstUser() {
        do throws(FirstUserRefusal) {
            firstUser = try FirstUser(environment: environment, files: files)
        } catch {
            log.add(error.diagnostic)
        }
        if let firstUser { configuration.note(firstUser) }
    }

    // MARK: Listeners

    private mutating func resolveListeners(ports: [UInt16]) {
        let isLocal =
            defaultPort == nil && defaultHost == nil && listeners.dropFirst().allSatisfy(\.configuration.isLocalAdministration)
        if !wasGiven("allow_anonymous") { configuration.security.allowsAnonymous = isLocal && firstUser == nil }
        if isLocal { resolveLoopback(ports: ports) } else { resolveDefaultListener(ports: ports) }
        for index in listeners.indices where index > 0 {
            // A listener whose line is wrong was reported.
            guard listeners[index].configuration.endpoint != .tcp(port: 0, host: nil) else { continue }
            add(index)
        }
    }

    /// The file opens no listener, or none but those from which only this machine administers the broker.
    private mutating func resolveLoopback(ports: [UInt16]) {
        if let defaultListenerPosition {
            log.warning(
                "without a line \"listener PORT\" only this machine can connect; mosquitto may open port 1883 to the network for such an option.",
                at: defaultListenerPosition)
        }
        listeners[0].configuration.security.allowsAnonymous = firstUser == nil
        add(0)
        guard let listener = configuration.listeners.popLast() else { return }
        configuration.listeners = BrokerConfiguration.loopbackListeners(ports: ports, security: listener.security).map {
            var copy = listener
            copy.endpoint = $0.endpoint
            return copy
        }
        for _ in configuration.listeners.dropFirst() { places.recordListener(ofDraft: 0) }
    }

    /// `port`, `bind_address` and listener options outside of every section ask for one more listener.
    private mutating func resolveDefaultListener(ports: [UInt16]) {
        if !ports.isEmpty {
            log.add(
                Diagnostic(
                    severity: .warning, file: path,
                    message: "the ports of the command line are not opened, because the file has listeners."))
        }
        guard let position = defaultListenerPosition else { return }
        let endpoint = ListenerEndpoint.tcp(port: defaultPort ?? BrokerConfiguration.defaultPort, host: defaultHost)
        if defaultPort == nil && defaultHost == nil {
            log.warning(
                "a listener option before the first line \"listener PORT\" opens another listener, on port \(BrokerConfiguration.defaultPort); to set it for the listener only, move it below that line.",
                at: position)
        }
        if let twin = listeners.dropFirst().first(where: { $0.configuration.endpoint == endpoint })?.position {
            log.error(
                "the listener of \(twin.place(from: position)) has the same address and port as the default listener.", at: position
            )
            return
        }
        listeners[0].configuration.endpoint = endpoint
        listeners[0].position = position
        add(0)
    }

    /// Completes a draft and adds it to the broker's listeners.
    private mutating func add(_ index: Int) {
        var draft = listeners[index]
        if !hasListenerSecurity { draft.configuration.security = configuration.security }
        for plugin in draft.plugins { draft.configuration.security.add(plugin) }
        if let isAllowed = draft.allowsAnonymous { draft.configuration.security.allowsAnonymous = isAllowed }
        if let firstUser {
            draft.configuration.security.add(firstUser, isOpened: draft.allowsAnonymous != nil || hasListenerSecurity)
        }
        if let prefix = draft.assignedIdentifierPrefix { draft.configuration.security.assignedIdentifierPrefix = prefix }
        draft.configuration.durability = draft.durability ?? configuration.persistence.durability
        draft.configuration.isDispensable = draft.configuration.isAdministrationSocket
        if draft.usesSubjectAsUserName { draft.configuration.tls.userNameSource = .subject }
        if draft.usesIdentityAsUserName { draft.configuration.tls.userNameSource = .identity }
        configuration.listeners.append(draft.configuration)
        places.recordListener(ofDraft: index)
        ListenerCheck(draft: draft, index: index, places: places, path: path).run(log: &log)
    }
}
