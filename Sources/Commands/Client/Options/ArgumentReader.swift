internal import MQTTCodec

/// The options of the client commands: names, meaning, and which command takes which. Reading, help, manual and
/// completions come from here.
///
/// Names and meanings are those of mosquitto_pub, mosquitto_sub and mosquitto_rr, versions 2.0 and 2.1.
public enum ClientOption: String, CaseIterable, Sendable {
    // Where.
    case host, port, unix, url, webSocket, webSocketPath, webSocketHeader, bind, noDelay, proxy
    // Who.
    case identifier, identifierPrefix, userName, password, version, keepAlive, keepsSession, sessionExpiry
    // What.
    case topic, qos, retain, message, file, lines, input, null, count, delay, inFlight, responseTopic
    // What is received and how it is printed.
    case messageCount, timeout, exitsWhenSubscribed, filterOut, unsubscribe, noRetained, retainedOnly, retainAsPublished
    case removeRetained, randomFilter, watch, verbose, format, json, pretty, noNewline, jobs
    // The will, and properties.
    case willTopic, willPayload, willQoS, willRetain, property
    // TLS.
    case cafile, capath, cert, key, keyform, tlsVersion, ciphers, insecure, alpn, systemAuthorities, noTLS, psk, pskIdentity
    case engine, enginePassword
    // The command itself.
    case optionsFile, debug, quiet, serviceRecord, programVersion

    /// What completes the option's value in a shell.
    public enum Completion: Sendable, Equatable {
        case nothing, file, directory
        case words([String])
    }

    /// Everything that is known of an option.
    public struct Description: Sendable {
        /// With their dashes; the letter first.
        public let names: [String]
        /// How the value is called in the help; nil for a flag.
        public let value: String?
        /// How mosquitto calls it when it is missing.
        let missing: String
        /// Plain sentences.
        public let help: String
        public let commands: Set<ClientCommand>
        public let completion: Completion
    }

    /// The options of a command, in the order of its help.
    public static func all(of command: ClientCommand) -> [ClientOption] {
        allCases.filter { $0.description.commands.contains(command) }
    }

    /// The option of a command that has that name, dashes included.
    static func named(_ name: String, of command: ClientCommand) -> ClientOption? {
        byName[name].flatMap { $0.description.commands.contains(command) ? $0 : nil }
    }

    private static let byName: [String: ClientOption] = Dictionary(
        uniqueKeysWithValues: allCases.flatMap { option in option.description.names.map { ($0, option) } })
}

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
            if expectsPositional(word) {
                guard try readPositional(word, &rest) else { break }
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
    private func expectsPositional(_ word: String) -> Bool {
        switch arguments.command {
        case .mirror: !word.hasPrefix("-")
        case .respond: !word.hasPrefix("-") || word == "--"
        case .pub, .sub, .request: false
        }
    }

    /// Returns whether options may follow.
    private mutating func readPositional(_ word: String, _ rest: inout ArraySlice<String>) throws(ArgumentError) -> Bool {
        guard arguments.command == .respond else {
            arguments.subscribing.filters.append(try filter(word, "subscription topic"))
            return true
        }
        arguments.publishing.program = (word == "--" ? [] : [word]) + rest
        return false
    }
}

// MARK: - One option

extension ArgumentReader {
    private mutating func set(_ flag: ClientOption) throws(ArgumentError) {
        switch flag {
        case .webSocket: arguments.connection.usesWebSocket = true
        case .noDelay: break
        case .keepsSession: arguments.session.cleanStart = false
        case .retain: arguments.publishing.retain = true
        case .lines: try setSource(.lines)
        case .input: try setSource(.input)
        case .null: try setSource(.null)
        case .exitsWhenSubscribed: arguments.subscribing.exitsWhenSubscribed = true
        case .watch: arguments.subscribing.watches = true
        case .noRetained: arguments.subscribing.noRetained = true
        case .retainedOnly: arguments.subscribing.retainedOnly = true
        case .retainAsPublished: arguments.subscribing.retainAsPublished = true
        case .removeRetained: arguments.subscribing.removesRetained = true
        case .verbose: isVerbose = true
        case .json: isJSON = true
        case .pretty: arguments.printing.isPretty = true
        case .noNewline: arguments.printing.addsNewline = false
        case .willRetain: retainsWill = true
        case .insecure: arguments.connection.tls.acceptsAnyCertificate = true
        case .systemAuthorities: arguments.connection.tls.usesSystemAuthorities = true
        case .noTLS: arguments.connection.tls.isForbidden = true
        case .debug: arguments.printing.isDebugging = true
        case .quiet: arguments.printing.isQuiet = true
        case .serviceRecord:
            throw ArgumentError("Error: -S is not supported: hosts are not looked up as services; give one with -h.")
        default: break
        }
    }

    private mutating func set(_ option: ClientOption, _ value: String) throws(ArgumentError) {
        switch option {
        case .host: (arguments.connection.host, arguments.connection.socketPath) = (value, nil)
        case .port: arguments.connection.port = try port(value)
        case .unix: arguments.connection.socketPath = value
        case .url: try setURL(value)
        case .bind: arguments.connection.bindAddress = value
        case .webSocketPath:
            guard value.hasPrefix("/") else { throw ArgumentError("Error: --ws-path takes a path that begins with a slash.") }
            (arguments.connection.usesWebSocket, arguments.connection.webSocketPath) = (true, value)
        case .webSocketHeader: try setWebSocketHeader(value)
        case .proxy: arguments.connection.proxy = value
        case .identifier, .identifierPrefix: try setIdentifier(value, isPrefix: option == .identifierPrefix)
        case .userName: arguments.login.userName = try encoded(value, "-u")
        case .password: arguments.login.password = Array(value.utf8)
        case .version: arguments.version = try version(value)
        case .keepAlive:
            arguments.session.keepAliveSeconds = try number(
                value, 5...65_535, else: "Error: Invalid keepalive given, it must be between 5 and 65535 inclusive.")
        case .sessionExpiry: try setSessionExpiry(value)
        case .topic: try setTopic(value, "-t")
        case .qos: arguments.qos = try qos(value, else: "Error: Invalid QoS given: \(value)")
        case .message: try setSource(.text(Array(value.utf8)))
        case .file: try setSource(.file(value))
        case .count:
            arguments.publishing.repeatCount = try number(value, 1...Int(Int32.max), else: "Error: --repeat argument must be >0.")
        case .delay:
            guard let seconds = Double(value), seconds >= 0, seconds <= 86_400 * 365 else {
                throw ArgumentError("Error: --repeat-delay argument must be >=0.0.")
            }
            arguments.publishing.repeatDelaySeconds = seconds
        case .inFlight:
            arguments.session.inFlightMessagesMax = try number(
                value, 1...65_535, else: "Error: Maximum inflight messages must be greater than 0.")
        case .responseTopic: arguments.publishing.responseTopic = try name(value, "response topic", "-e")
        case .messageCount:
            arguments.subscribing.messageCountMax = try number(
                value, 1...Int(Int32.max), else: "Error: Invalid message count \"\(value)\".")
        case .timeout:
            arguments.subscribing.timeoutSeconds = try number(
                value, 1...Int(Int32.max), else: "Error: Invalid timeout \"\(value)\".")
        case .filterOut: arguments.subscribing.filtersOut.append(try filter(value, "filter topic"))
        case .unsubscribe: arguments.subscribing.unsubscribed.append(try filter(value, "unsubscribe topic"))
        case .randomFilter:
            guard let percent = Double(value), percent >= 0.1, percent <= 100 else {
                throw ArgumentError("Error: --random-filter chance must be between 0.1-100.0")
            }
            arguments.subscribing.randomShare = Int(percent * 10)
        case .format: format = try MessageFormat(value)
        case .jobs: arguments.publishing.jobs = try number(value, 1...1024, else: "Error: --jobs takes 1 to 1024.")
        case .willTopic: willTopic = try name(value, "will topic", "--will-topic")
        case .willPayload: willPayload = Array(value.utf8)
        case .willQoS: willQoS = try qos(value, else: "Error: Invalid will QoS \(value).")
        case .cafile: arguments.connection.tls.authoritiesFile = value
        case .capath: arguments.connection.tls.authoritiesDirectory = value
        case .cert: arguments.connection.tls.certificateFile = value
        case .key: arguments.connection.tls.keyFile = value
        case .keyform: arguments.connection.tls.keyForm = value
        case .tlsVersion: try setTLSVersion(value)
        case .ciphers: arguments.connection.tls.ciphers = value
        case .alpn: arguments.connection.tls.applicationProtocol = value
        case .psk:
            guard let key = Self.bytes(hexadecimal: value) else {
                throw ArgumentError("Error: --psk takes a key in hexadecimal digits, two for each byte.")
            }
            arguments.connection.tls.preSharedKey = key
        case .pskIdentity: arguments.connection.tls.preSharedKeyIdentity = value
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
        arguments.connection.usesWebSocket = true
        arguments.connection.webSocketHeaders[String(text[..<colon])] = String(value)
    }

    private mutating func setSource(_ source: PublishArguments.MessageSource) throws(ArgumentError) {
        guard arguments.publishing.source == nil else {
            throw ArgumentError("Error: Only one type of message can be sent at once.")
        }
        arguments.publishing.source = source
    }

    private mutating func setTopic(_ value: String, _ option: String) throws(ArgumentError) {
        switch arguments.command {
        case .pub, .request: arguments.publishing.topic = try name(value, "publish topic", option)
        case .sub, .respond, .mirror: arguments.subscribing.filters.append(try filter(value, "subscription topic"))
        }
    }

    private mutating func setIdentifier(_ value: String, isPrefix: Bool) throws(ArgumentError) {
        let text = try encoded(value, isPrefix ? "-I" : "-i")
        guard (isPrefix ? arguments.login.identifier : arguments.login.identifierPrefix) == nil else {
            throw ArgumentError("Error: -i and -I argument cannot be used together.")
        }
        if isPrefix { arguments.login.identifierPrefix = text } else { arguments.login.identifier = text }
    }

    private mutating func setSessionExpiry(_ value: String) throws(ArgumentError) {
        if value == "∞" || value == "-1" {
            arguments.session.expiryInterval = UInt32.max
            return
        }
        guard let seconds = Int(value) else { throw ArgumentError("Error: session-expiry-interval not a number.") }
        guard let interval = UInt32(exactly: seconds) else { throw ArgumentError("Error: session-expiry-interval out of range.") }
        arguments.session.expiryInterval = interval
    }

    private mutating func setTLSVersion(_ value: String) throws(ArgumentError) {
        if let version = TLSArguments.Version(rawValue: value) {
            arguments.connection.tls.versionMin = version
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
        (arguments.connection.host, arguments.connection.socketPath) = (address.host, nil)
        arguments.connection.port = address.port
        if address.usesTLS { arguments.connection.tls.usesSystemAuthorities = true }
        if address.usesWebSocket { arguments.connection.usesWebSocket = true }
        if let user = address.user { arguments.login.userName = try encoded(user, "-L") }
        if let password = address.password { arguments.login.password = Array(password.utf8) }
        try setTopic(address.topic, "-L topic")
    }
}

/// What an option's value stands for; each says what is wrong with one that stands for nothing.
extension ArgumentReader {
    func number<Number: FixedWidthInteger>(
        _ text: String, _ range: ClosedRange<Number>, else complaint: @autoclosure () -> String
    ) throws(ArgumentError) -> Number {
        guard let number = Number(text), range.contains(number) else { throw ArgumentError(complaint()) }
        return number
    }

    func port(_ text: String) throws(ArgumentError) -> UInt16 {
        // mosquitto takes 0 for a Unix socket, which has an option of its own.
        try number(text, 1...UInt16.max, else: "Error: Invalid port given: \(text)")
    }

    func qos(_ text: String, else complaint: @autoclosure () -> String) throws(ArgumentError) -> QoS {
        guard let qos = UInt8(text).flatMap(QoS.init(rawValue:)) else { throw ArgumentError(complaint()) }
        return qos
    }

    func version(_ text: String) throws(ArgumentError) -> ProtocolVersion {
        switch text {
        case "5", "mqttv5": .v5
        case "311", "mqttv311": .v311
        case "31", "mqttv31": .v31
        default: throw ArgumentError("Error: Invalid protocol version argument given.")
        }
    }

    func encoded(_ text: String, _ option: String) throws(ArgumentError) -> EncodedString {
        guard let encoded = EncodedString(text) else {
            throw ArgumentError("Error: \(option) takes at most 65535 bytes and no null character.")
        }
        return encoded
    }

    func name(_ text: String, _ what: String, _ option: String) throws(ArgumentError) -> TopicName {
        guard let name = TopicName(text) else {
            throw ArgumentError("Error: Invalid \(what) '\(text)', does it contain '+' or '#'?")
        }
        return name
    }

    func filter(_ text: String, _ what: String) throws(ArgumentError) -> TopicFilter {
        guard let filter = TopicFilter(text) else {
            throw ArgumentError("Error: Invalid \(what) '\(text)', are all '+' and '#' wildcards correct?")
        }
        return filter
    }

    /// nil for anything but pairs of digits.
    static func bytes(hexadecimal text: String) -> [UInt8]? {
        let digits = text.utf8.map { Character(UnicodeScalar($0)).hexDigitValue }
        guard !digits.isEmpty, digits.count.isMultiple(of: 2) else { return nil }
        var bytes: [UInt8] = []
        for index in stride(from: 0, to: digits.count, by: 2) {
            guard let high = digits[index], let low = digits[index + 1] else { return nil }
            bytes.append(UInt8(high << 4 | low))
        }
        return bytes
    }
}

/// What makes sense together.
extension ArgumentReader {
    /// The arguments as a whole, if they make sense together.
    func finished() throws(ArgumentError) -> ClientArguments {
        var arguments = arguments
        try checkTLS()
        arguments.will = try will()
        arguments.printing.output = output
        try setSession(&arguments)
        switch arguments.command {
        case .pub:
            guard arguments.publishing.topic != nil, arguments.publishing.source != nil else {
                throw ArgumentError("Error: Both topic and message must be supplied.")
            }
            guard arguments.publishing.source != .lines || arguments.publishing.repeatCount == 1 else {
                throw ArgumentError("Error: --repeat makes no sense with -l.")
            }
        case .sub:
            guard !arguments.subscribing.filters.isEmpty || !arguments.subscribing.unsubscribed.isEmpty else {
                throw ArgumentError("Error: You must specify a topic to subscribe to.")
            }
            guard !arguments.subscribing.noRetained || !arguments.subscribing.retainedOnly else {
                throw ArgumentError("Error: Combining '-R' and '--retained-only' makes no sense.")
            }
        case .request: try finishRequest(&arguments)
        case .respond:
            guard !arguments.subscribing.filters.isEmpty else {
                throw ArgumentError("Error: You must specify the topic of the requests (-t).")
            }
            guard (arguments.publishing.source == nil) != arguments.publishing.program.isEmpty else {
                throw ArgumentError("Error: Give either a message (-m, -f, -n or -s) or a command as the answer.")
            }
        case .mirror: if arguments.subscribing.filters.isEmpty { arguments.subscribing.filters = ["#"] }
        }
        return arguments
    }

    /// MQTT 3.1.1 has no response topics in messages: both sides have to know it.
    private func finishRequest(_ arguments: inout ClientArguments) throws(ArgumentError) {
        guard arguments.publishing.topic != nil, arguments.publishing.source != nil,
            arguments.publishing.responseTopic != nil || arguments.version == .v5
        else {
            throw ArgumentError(
                arguments.version == .v5
                    ? "Error: Both topic and message must be supplied."
                    : "Error: All of topic, message, and response topic must be supplied.")
        }
        guard arguments.properties.publish.responseTopic == nil else {
            throw ArgumentError("Error in PUBLISH properties: Duplicate response topic.")
        }
    }

    private func checkTLS() throws(ArgumentError) {
        let tls = arguments.connection.tls
        guard (tls.certificateFile == nil) == (tls.keyFile == nil) else {
            throw ArgumentError("Error: Both certfile and keyfile must be provided if one of them is set.")
        }
        if let form = tls.keyForm {
            guard tls.keyFile != nil else { throw ArgumentError("Error: If keyform is set, keyfile must be also specified.") }
            guard form == "pem" else {
                throw ArgumentError("Error: --keyform \(form) is not supported: keys are read from files in the form pem.")
            }
        }
        if tls.preSharedKey != nil {
            guard tls.authoritiesFile == nil, tls.authoritiesDirectory == nil else {
                throw ArgumentError("Error: Only one of --psk or --cafile/--capath may be used at once.")
            }
            guard tls.preSharedKeyIdentity != nil else { throw ArgumentError("Error: --psk-identity required if --psk used.") }
        }
    }

    private func will() throws(ArgumentError) -> Will? {
        guard let willTopic else {
            guard willPayload == nil else { throw ArgumentError("Error: Will payload given, but no will topic given.") }
            guard !retainsWill else { throw ArgumentError("Error: Will retain given, but no will topic given.") }
            return nil
        }
        return Will(
            topic: willTopic, payload: willPayload ?? [], qos: willQoS ?? .atMostOnce, retain: retainsWill,
            properties: arguments.properties.will)
    }

    private var output: PrintArguments.Output {
        if isJSON { return .json }
        if let format { return .format(format) }
        return isVerbose ? .verbose : .payload
    }

    private func setSession(_ arguments: inout ClientArguments) throws(ArgumentError) {
        guard arguments.version == .v5 else {
            guard arguments.session.cleanStart || arguments.login.identifier != nil else {
                throw ArgumentError("Error: You must provide a client id if you are using the -c option.")
            }
            guard arguments.login.password == nil || arguments.login.userName != nil else {
                throw ArgumentError("Error: A password without a user name needs MQTT 5.0 (-V 5).")
            }
            return
        }
        if !arguments.session.cleanStart, arguments.session.expiryInterval == nil { arguments.session.expiryInterval = .max }
        if arguments.session.expiryInterval == .max, arguments.login.identifier == nil {
            throw ArgumentError("Error: You must provide a client id if you are using an infinite session expiry interval.")
        }
    }
}

extension ClientOption {
    /// How mosquitto says that the value is missing.
    var missingWords: String { self == .inFlight ? "max_inflight not" : "no \(description.missing)" }
}
