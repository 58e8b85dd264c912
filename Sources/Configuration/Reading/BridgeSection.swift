import Platform

/// A `connection` section that stands in no file: what an administrator asks for while the broker runs.
///
/// Its lines have the options' first names (`remote_clientid` for `clientid`), each once unless it may be repeated, in
/// the order of the table.
public struct BridgeSection: Sendable, Equatable {
    /// An option, and what follows it: one text, or of an option that may be given more than once, one for each line.
    public struct Line: Sendable, Equatable {
        public let name: String
        public let values: [String]
        /// Whether the value is nobody's business.
        public let isSecret: Bool
    }

    /// What follows `connection`.
    public let name: String
    public private(set) var lines: [Line] = []

    /// An empty one. Throws what is wrong with its name, as a sentence.
    public init(name: String) throws(BridgeSectionRefusal) {
        guard !name.isEmpty, name.utf8.count <= Limits.bridgeNameBytesMax, name == name.trimmed,
            LineReader.complaint(about: name) == nil
        else {
            throw BridgeSectionRefusal(
                "the name of a bridge has 1 to \(Limits.bridgeNameBytesMax) bytes, without control characters and blanks at its ends."
            )
        }
        self.name = name
    }

    /// Gives an option its value, or values; or takes it away. Throws why not, as a sentence; whether the value is
    /// right is said by `read`.
    ///
    /// - Parameters:
    ///   - option: its name.
    ///   - values: nil and none take it away.
    public mutating func set(_ option: String, to values: [String]?) throws(BridgeSectionRefusal) {
        guard let row = ConfigurationOption.named(option) else {
            let nearest = NearestName.nearest(to: option, among: Self.options.map(\.name)).map { " Did you mean \($0)?" } ?? ""
            throw BridgeSectionRefusal("Unknown configuration variable '\(option.prefix(80))'.\(nearest)")
        }
        guard row.section == .bridge, let place = Self.options.firstIndex(where: { $0.name == row.identity }) else {
            throw BridgeSectionRefusal("\(option): it is no option of a bridge.")
        }
        let kept = lines.filter { $0.name != row.identity }
        guard let values, !values.isEmpty else {
            lines = kept
            return
        }
        guard values.count == 1 || row.isRepeatable else { throw BridgeSectionRefusal("\(option): it is given more than once.") }
        for value in values {
            guard value.utf8.count <= Limits.valueBytesMax else {
                throw BridgeSectionRefusal("\(option): the value is longer than \(Limits.valueBytesMax) bytes.")
            }
            if let complaint = LineReader.complaint(about: value) { throw BridgeSectionRefusal("\(option): \(complaint)") }
            // Who may make bridges could have any file of the broker's sent to a machine of theirs.
            if ConfigurationOption.isSecret(row.identity), value.trimmed.hasPrefix(SecretFiles.prefix) {
                throw BridgeSectionRefusal("\(option): \(SecretFiles.prefix)PATH is for configuration files; give the text itself.")
            }
            if ConfigurationOption.isSecret(row.identity) || value.holds("://"), AddressMask.isMasked(value.trimmed) {
                throw BridgeSectionRefusal("\(option): \(AddressMask.mask) stands for what is not shown; give the whole value.")
            }
            guard !value.trimmed.isEmpty else {
                throw BridgeSectionRefusal("Empty \(option) value in configuration; expected \(option) \(row.shape).")
            }
        }
        let line = Line(name: row.identity, values: values.map(\.trimmed), isSecret: ConfigurationOption.isSecret(row.identity))
        let next = kept.firstIndex { kept in Self.options.firstIndex { $0.name == kept.name } ?? 0 > place } ?? kept.count
        lines = Array(kept[..<next]) + [line] + Array(kept[next...])
    }

    /// What the section says, and what there is to say about it: as a file with it would be read.
    public func read() -> (bridge: BridgeConfiguration, diagnostics: [Diagnostic]) {
        // Its lines have no place: diagnostics tell of the option alone.
        let place = SourcePosition(file: "", line: 1)
        var reading = ConfigurationReading(files: NoFiles(), environment: [:], path: "")
        let texts = [("connection", name)] + lines.flatMap { line in line.values.map { (line.name, $0) } }
        reading.handle(texts.map { ConfigurationLine(position: place, name: $0.0, value: $0.1) }, isMainFile: false)
        let bridge = reading.configuration.bridges.first ?? BridgeConfiguration(name: name)
        BridgeCheck(bridge: bridge, position: place).run(log: &reading.log)
        return (bridge, reading.log.diagnostics)
    }

    /// The options that a section may have, each by its first name.
    public static let options = ConfigurationOption.all.filter {
        $0.section == .bridge && $0.canonicalName == nil && $0.name != "connection"
    }
}

/// Why a `connection` section cannot be so: a sentence.
public struct BridgeSectionRefusal: Error, Equatable, CustomStringConvertible {
    public let description: String

    public init(_ description: String) { self.description = description }
}

/// A section names no other files.
private struct NoFiles: FileSource {
    func contents(ofFile path: String, bytesMax: Int) throws(FileFailure) -> [UInt8] { throw none(path) }
    func names(inDirectory path: String) throws(FileFailure) -> [String] { throw none(path) }

    private func none(_ path: String) -> FileFailure {
        FileFailure(operation: "open", path: path, errorNumber: 0, reason: "There are no files here")
    }
}

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

extension Limits {
    /// Bytes of a bridge's name where the broker is asked for it while it runs, so that its topics, labels and paths
    /// stay short; a longer one is refused.
    static let bridgeNameBytesMax = 255
}
