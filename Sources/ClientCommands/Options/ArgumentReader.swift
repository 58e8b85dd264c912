internal import MQTTCodec

extension ClientArguments {
    /// What arguments ask for.
    public enum Wish: Equatable, Sendable {
        case run(ClientArguments)
        case help
        case version
    }

    /// Reads arguments, of which later ones win, as mosquitto's clients do.
    ///
    /// - `words`: what follows the command's name.
    /// - `defaults`: lines of an options file, which come before them.
    public static func read(
        _ words: [String], for command: ClientCommand, defaults: [OptionsFile.Line] = []
    ) throws(ArgumentError) -> Wish {
        var reader = ArgumentReader(command)
        for line in defaults {
            // The file is mosquitto_sub's, and mirror has not all of its options.
            if command == .mirror, let name = line.words.first, ClientOption.named(name, of: .mirror) == nil,
                ClientOption.named(name, of: .sub) != nil
            {
                continue
            }
            if let wish = try reader.read(line.words) { return wish }
        }
        if let wish = try reader.read(words) { return wish }
        return .run(try reader.finished())
    }
}

/// Takes words one after the other; what contradicts itself is said at the end.
struct ArgumentReader {
    var arguments: ClientArguments
    var willTopic: TopicName?
    var willPayload: [UInt8]?
    var willQoS: QoS?
    var retainsWill = false
    var isVerbose = false
    var format: MessageFormat?
    var isJSON = false

    init(_ command: ClientCommand) { arguments = ClientArguments(command) }

    /// Takes the words of a line; returns a wish that ends reading.
    mutating func read(_ words: [String]) throws(ArgumentError) -> ClientArguments.Wish? {
        var rest = words[...]
        while let word = rest.popFirst() {
            if word == "--help" { return .help }
            if takesPositional(word) {
                guard try takePositional(word, &rest) else { break }
                continue
            }
            // Other commands of martlet take --name=value too.
            let parts = word.hasPrefix("--") ? word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false) : []
            let name = parts.count == 2 ? String(parts[0]) : word
            guard let option = ClientOption.named(name, of: arguments.command) else {
                throw ArgumentError("Error: Unknown option '\(word)'.")
            }
            if option == .programVersion { return .version }
            let description = option.description
            guard description.value != nil else {
                guard parts.count != 2 else { throw ArgumentError("Error: \(name) takes no value.") }
                try set(option)
                continue
            }
            if parts.count == 2 { rest.insert(String(parts[1]), at: rest.startIndex) }
            if option == .property {
                try setProperty(&rest)
                continue
            }
            guard let value = rest.popFirst() else {
                let name = option == .version ? "--protocol-version" : description.names[0]
                throw ArgumentError("Error: \(name) argument given but \(option.missingWords) specified.")
            }
            try set(option, value)
        }
        return nil
    }

    /// What follows the options: filters of mirror, and the program of respond.
    private func takesPositional(_ word: String) -> Bool {
        switch arguments.command {
        case .mirror: !word.hasPrefix("-")
        case .respond: !word.hasPrefix("-") || word == "--"
        case .pub, .sub, .request: false
        }
    }

    /// Returns whether options may follow.
    private mutating func takePositional(_ word: String, _ rest: inout ArraySlice<String>) throws(ArgumentError) -> Bool {
        guard arguments.command == .respond else {
            arguments.filters.append(try filter(word, "subscription topic"))
            return true
        }
        arguments.program = (word == "--" ? [] : [word]) + rest
        return false
    }
}

// MARK: - One option

extension ArgumentReader {
    private mutating func set(_ flag: ClientOption) throws(ArgumentError) {
        switch flag {
        case .webSocket: arguments.usesWebSocket = true
        case .noDelay: break
        case .keepsSession: arguments.cleanStart = false
        case .retain: arguments.retain = true
        case .lines: try setSource(.lines)
        case .input: try setSource(.input)
        case .null: try setSource(.null)
        case .exitsWhenSubscribed: arguments.exitsWhenSubscribed = true
        case .watch: arguments.watches = true
        case .noRetained: arguments.noRetained = true
        case .retainedOnly: arguments.retainedOnly = true
        case .retainAsPublished: arguments.retainAsPublished = true
        case .removeRetained: arguments.removesRetained = true
        case .verbose: isVerbose = true
        case .json: isJSON = true
        case .pretty: arguments.isPretty = true
        case .noNewline: arguments.addsNewline = false
        case .willRetain: retainsWill = true
        case .insecure: arguments.tls.takesAnyCertificate = true
        case .systemAuthorities: arguments.tls.usesSystemAuthorities = true
        case .noTLS: arguments.tls.isForbidden = true
        case .debug: arguments.isDebugging = true
        case .quiet: arguments.isQuiet = true
        case .serviceRecord:
            throw ArgumentError("Error: -S is not supported: hosts are not looked up as services; give one with -h.")
        default: break
        }
    }

    private mutating func set(_ option: ClientOption, _ value: String) throws(ArgumentError) {
        switch option {
        case .host: (arguments.host, arguments.socketPath) = (value, nil)
        case .port: arguments.port = try port(value)
        case .unix: arguments.socketPath = value
        case .url: try setURL(value)
        case .bind: arguments.bindAddress = value
        case .webSocketPath:
            guard value.hasPrefix("/") else { throw ArgumentError("Error: --ws-path takes a path that begins with a slash.") }
            (arguments.usesWebSocket, arguments.webSocketPath) = (true, value)
        case .webSocketHeader: try setWebSocketHeader(value)
        case .proxy: arguments.proxy = value
        case .identifier, .identifierPrefix: try setIdentifier(value, isPrefix: option == .identifierPrefix)
        case .userName: arguments.userName = try encoded(value, "-u")
        case .password: arguments.password = Array(value.utf8)
        case .version: arguments.version = try version(value)
        case .keepAlive:
            arguments.keepAliveSeconds = try number(
                value, 5...65_535, else: "Error: Invalid keepalive given, it must be between 5 and 65535 inclusive.")
        case .sessionExpiry: try setSessionExpiry(value)
        case .topic: try setTopic(value, "-t")
        case .qos: arguments.qos = try qos(value, else: "Error: Invalid QoS given: \(value)")
        case .message: try setSource(.text(Array(value.utf8)))
        case .file: try setSource(.file(value))
        case .count: arguments.repeatCount = try number(value, 1...Int(Int32.max), else: "Error: --repeat argument must be >0.")
        case .delay:
            guard let seconds = Double(value), seconds >= 0, seconds <= 86_400 * 365 else {
                throw ArgumentError("Error: --repeat-delay argument must be >=0.0.")
            }
            arguments.repeatDelaySeconds = seconds
        case .inFlight:
            arguments.inFlightMessagesMax = try number(
                value, 1...65_535, else: "Error: Maximum inflight messages must be greater than 0.")
        case .responseTopic: arguments.responseTopic = try name(value, "response topic", "-e")
        case .messageCount:
            arguments.messageCountMax = try number(value, 1...Int(Int32.max), else: "Error: Invalid message count \"\(value)\".")
        case .timeout:
            arguments.timeoutSeconds = try number(value, 1...Int(Int32.max), else: "Error: Invalid timeout \"\(value)\".")
        case .filterOut: arguments.filtersOut.append(try filter(value, "filter topic"))
        case .unsubscribe: arguments.unsubscribed.append(try filter(value, "unsubscribe topic"))
        case .randomFilter:
            guard let percent = Double(value), percent >= 0.1, percent <= 100 else {
                throw ArgumentError("Error: --random-filter chance must be between 0.1-100.0")
            }
            arguments.randomShare = Int(percent * 10)
        case .format: format = try MessageFormat(value)
        case .jobs: arguments.jobs = try number(value, 1...1024, else: "Error: --jobs takes 1 to 1024.")
        case .willTopic: willTopic = try name(value, "will topic", "--will-topic")
        case .willPayload: willPayload = Array(value.utf8)
        case .willQoS: willQoS = try qos(value, else: "Error: Invalid will QoS \(value).")
        case .cafile: arguments.tls.authoritiesFile = value
        case .capath: arguments.tls.authoritiesDirectory = value
        case .cert: arguments.tls.certificateFile = value
        case .key: arguments.tls.keyFile = value
        case .keyform: arguments.tls.keyForm = value
        case .tlsVersion: try setTLSVersion(value)
        case .ciphers: arguments.tls.ciphers = value
        case .alpn: arguments.tls.applicationProtocol = value
        case .psk:
            guard let key = Self.bytes(hexadecimal: value) else {
                throw ArgumentError("Error: --psk takes a key in hexadecimal digits, two for each byte.")
            }
            arguments.tls.preSharedKey = key
        case .pskIdentity: arguments.tls.preSharedKeyIdentity = value
        case .engine: throw ArgumentError("Error: --tls-engine is not supported: keys are read from files.")
        case .enginePassword: throw ArgumentError("Error: --tls-engine-kpass-sha1 is not supported: keys are read from files.")
        // Who starts the command has read it.
        case .optionsFile: break
        default: break
        }
    }

    private mutating func setWebSocketHeader(_ text: String) throws(ArgumentError) {
        guard let colon = text.firstIndex(of: ":"), colon > text.startIndex else {
            throw ArgumentError("Error: --ws-header takes a name and a value: \"Name: value\".")
        }
        let value = text[text.index(after: colon)...].drop { $0 == " " }
        arguments.usesWebSocket = true
        arguments.webSocketHeaders[String(text[..<colon])] = String(value)
    }

    private mutating func setSource(_ source: ClientArguments.MessageSource) throws(ArgumentError) {
        guard arguments.source == nil else { throw ArgumentError("Error: Only one type of message can be sent at once.") }
        arguments.source = source
    }

    private mutating func setTopic(_ value: String, _ option: String) throws(ArgumentError) {
        switch arguments.command {
        case .pub, .request: arguments.topic = try name(value, "publish topic", option)
        case .sub, .respond, .mirror: arguments.filters.append(try filter(value, "subscription topic"))
        }
    }

    private mutating func setIdentifier(_ value: String, isPrefix: Bool) throws(ArgumentError) {
        let text = try encoded(value, isPrefix ? "-I" : "-i")
        guard (isPrefix ? arguments.identifier : arguments.identifierPrefix) == nil else {
            throw ArgumentError("Error: -i and -I argument cannot be used together.")
        }
        if isPrefix { arguments.identifierPrefix = text } else { arguments.identifier = text }
    }

    private mutating func setSessionExpiry(_ value: String) throws(ArgumentError) {
        if value == "∞" || value == "-1" {
            arguments.sessionExpiryInterval = UInt32.max
            return
        }
        guard let seconds = Int(value) else { throw ArgumentError("Error: session-expiry-interval not a number.") }
        guard let interval = UInt32(exactly: seconds) else { throw ArgumentError("Error: session-expiry-interval out of range.") }
        arguments.sessionExpiryInterval = interval
    }

    private mutating func setTLSVersion(_ value: String) throws(ArgumentError) {
        if let version = TLSArguments.Version(rawValue: value) {
            arguments.tls.versionMin = version
            return
        }
        guard value == "tlsv1.1" || value == "tlsv1" else {
            throw ArgumentError("Error: --tls-version takes tlsv1.2 or tlsv1.3, not \(value).")
        }
        throw ArgumentError("Error: --tls-version \(value) is not supported: TLS before 1.2 is not safe.")
    }

    private mutating func setProperty(_ rest: inout ArraySlice<String>) throws(ArgumentError) {
        try arguments.properties.add(&rest)
        arguments.version = .v5
    }

    private mutating func setURL(_ text: String) throws(ArgumentError) {
        let address = try URLArgument(text)
        (arguments.host, arguments.socketPath) = (address.host, nil)
        arguments.port = address.port
        if address.usesTLS { arguments.tls.usesSystemAuthorities = true }
        if address.usesWebSocket { arguments.usesWebSocket = true }
        if let user = address.user { arguments.userName = try encoded(user, "-L") }
        if let password = address.password { arguments.password = Array(password.utf8) }
        try setTopic(address.topic, "-L topic")
    }
}
