/// Finds what is wrong with a bridge as a whole.
struct BridgeCheck {
    let bridge: BridgeConfiguration
    let position: SourcePosition

    func run(log: inout DiagnosticLog) {
        if bridge.addresses.isEmpty { error("the bridge has no address.", &log) }
        if bridge.topics.isEmpty { log.warning("the bridge has no topic.", at: position, option: "connection") }
        if bridge.remote.password != nil && bridge.remote.userName == nil && bridge.protocolVersion < 5 {
            error("remote_password needs remote_username too.", &log)
        }
        if bridge.connectionCount > 1 { checkConnections(&log) }
        checkTLS(&log)
    }

    /// What several connections cannot do: each topic belongs to one of them, and what comes in comes by the first.
    private func checkConnections(_ log: inout DiagnosticLog) {
        let outgoing = bridge.topics.filter { $0.direction != .in }
        if let topic = outgoing.first(where: { ($0.localPrefix + $0.pattern).hasPrefix("$share/") }) {
            error("martlet_bridge_connections divides topics; so does the share group of topic \(topic.pattern).", &log)
        }
        // The first does not know what the others have sent, unless messages say it.
        guard bridge.protocolVersion < 5 || !bridge.saysBrokers else { return }
        let incoming = bridge.topics.filter { $0.direction != .out }
        for topic in outgoing where incoming.contains(where: { topic.crosses($0) }) {
            error(
                "martlet_bridge_connections needs bridge_protocol_version mqttv50 and martlet_bridge_path true, since topic "
                    + "\(topic.pattern) goes out and comes in: messages would come back.", &log)
            return
        }
    }

    private func checkTLS(_ log: inout DiagnosticLog) {
        let tls = bridge.tls
        if (tls.certificateFile == nil) != (tls.keyFile == nil) {
            error("bridge_certfile and bridge_keyfile need each other.", &log)
        }
        if (tls.preSharedKey == nil) != (tls.preSharedKeyIdentity == nil) {
            error("bridge_identity and bridge_psk need each other.", &log)
        }
        let hasAuthorities = tls.authoritiesFile != nil || tls.authoritiesDirectory != nil || tls.usesSystemAuthorities
        if tls.preSharedKey != nil && (hasAuthorities || tls.certificateFile != nil) {
            error("bridge_psk and certificates exclude each other.", &log)
        }
        if tls.certificateFile != nil && !hasAuthorities {
            log.warning(
                "bridge_certfile has no effect without bridge_cafile, bridge_capath or bridge_tls_use_os_certs.", at: position,
                option: "connection")
        }
    }

    private func error(_ message: String, _ log: inout DiagnosticLog) {
        log.error(message, at: position, option: "connection")
    }
}
