/// Finds what is wrong with a bridge as a whole.
struct BridgeCheck {
    let bridge: BridgeConfiguration
    let position: SourcePosition

    func run(log: inout DiagnosticLog) {
        if bridge.addresses.isEmpty { error("the bridge has no address.", &log) }
        if bridge.topics.isEmpty { log.warning("the bridge has no topic.", at: position, option: "connection") }
        if bridge.remote.password != nil && bridge.remote.userName == nil && bridge.protocolVersion < 5 {
            error("remote_password needs remote_username beside it.", &log)
        }
        checkTLS(&log)
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
