import Platform

extension ConfigurationReading {
    /// Does what a line asks for that shapes the configuration itself.
    mutating func handle(
        _ option: StructuralOption, _ value: String, _ line: ConfigurationLine, _ cursor: inout SectionCursor
    ) {
        switch option {
        case .listener: openListener(value, line, &cursor)
        case .connection: openBridge(value, line, &cursor)
        case .port: setDefaultPort(value, line)
        case .bindAddress: setDefaultHost(value, line)
        case .includeDirectory: include(directory: value, line, cursor)
        case .perListenerSettings: setListenerSecurity(value, line)
        case .plugin: addPlugin(path: value, scope: pluginScope(line, cursor), line, &cursor)
        case .globalPlugin: addPlugin(path: value, scope: .everyListener, line, &cursor)
        case .pluginLoad: loadPlugin(value, line, &cursor)
        case .pluginUse: usePlugin(value, line, cursor)
        case .pluginOption(let prefix): setPluginOption(prefix: prefix, value, line, cursor)
        }
    }

    // MARK: Listeners

    private mutating func openListener(_ value: String, _ line: ConfigurationLine, _ cursor: inout SectionCursor) {
        // A line that is wrong opens its section all the same, so that the lines after it are not blamed.
        cursor.section = .listener
        cursor.listener = listeners.count
        var draft = ListenerDraft(endpoint: .tcp(port: 0, host: nil), position: line.position)
        defer { listeners.append(draft) }

        let word = value.words.first ?? ""
        var rest = value.dropFirst(word.count).trimmed
        guard let port = UInt16(word) else {
            let advice = ValueNotation.advice(onQuotesAround: word, of: line.name)
            log.error("found \(word.quoted), expected a port from 0 to 65535.\(advice)", at: line.position, option: line.name)
            return
        }
        // The path of a Unix socket, which port 0 asks for, may hold blanks and #.
        if port > 0, let comment = rest.words.firstIndex(where: { $0.hasPrefix("#") }) {
            rest = rest.words[..<comment].joined(separator: " ")
        }
        if let inner = ValueNotation.withoutQuotes(rest) {
            log.warning(
                "the quotes are taken off; mosquitto would take them for a part of it.", at: line.position, option: line.name)
            rest = inner
        }
        switch endpoint(port: port, place: rest) {
        case .success(let endpoint):
            if let twin = listeners.first(where: { $0.configuration.endpoint == endpoint })?.position {
                log.error(
                    "the listener of \(twin.location(from: line.position)) has the same address and port.", at: line.position,
                    option: line.name
                )
                return
            }
            draft.configuration.endpoint = endpoint
        case .failure(let refusal):
            log.error(refusal.message, at: line.position, option: line.name)
        }
    }

    /// Why a `listener` line names no address.
    private struct LocationRefusal: Error {
        /// A sentence.
        let message: String
    }

    private func endpoint(port: UInt16, place: String) -> Result<ListenerEndpoint, LocationRefusal> {
        if port == 0 {
            // sockaddr_un.sun_path has 108 bytes, one of them for the final zero.
            guard !place.isEmpty else {
                return .failure(LocationRefusal(message: "port 0 needs the path of a Unix socket after it."))
            }
            guard place.utf8.count <= 107 else {
                return .failure(LocationRefusal(message: "the path of the Unix socket is longer than 107 bytes."))
            }
            return .success(.unixSocket(path: place))
        }
        guard place.words.count <= 1 else {
            return .failure(LocationRefusal(message: "found \(place.quoted), expected one address."))
        }
        return .success(.tcp(port: port, host: place.isEmpty ? nil : place))
    }

    private mutating func setDefaultPort(_ value: String, _ line: ConfigurationLine) {
        guard let port = UInt16(value), port > 0 else {
            let advice = ValueNotation.advice(onQuotesAround: value, of: line.name)
            log.error("found \(value.quoted), expected a number from 1 to 65535.\(advice)", at: line.position, option: line.name)
            return
        }
        defaultPort = port
        if defaultListenerPosition == nil { defaultListenerPosition = line.position }
    }

    private mutating func setDefaultHost(_ value: String, _ line: ConfigurationLine) {
        guard value.words.count == 1 else {
            log.error("found \(value.quoted), expected one address.", at: line.position, option: line.name)
            return
        }
        defaultHost = value
        if defaultListenerPosition == nil { defaultListenerPosition = line.position }
    }

    private mutating func setListenerSecurity(_ value: String, _ line: ConfigurationLine) {
        guard let isOn = Bool(wordOf: value) else {
            let advice = ValueNotation.advice(onQuotesAround: value, of: line.name)
            log.error("found \(value.quoted), expected true or false.\(advice)", at: line.position, option: line.name)
            return
        }
        if isOn, let securityPosition {
            log.error(
                "it has to stand before the first security option, which is on \(securityPosition.location(from: line.position)).",
                at: line.position, option: line.name)
        }
        hasListenerSecurity = isOn
    }

    // MARK: Bridges

    private mutating func openBridge(_ value: String, _ line: ConfigurationLine, _ cursor: inout SectionCursor) {
        if let twin = configuration.bridges.firstIndex(where: { $0.name == value }) {
            log.error(
                "the bridge of \(bridgePositions[twin].location(from: line.position)) has the same name.", at: line.position,
                option: line.name)
        }
        cursor.section = .bridge
        cursor.bridge = configuration.bridges.count
        configuration.bridges.append(BridgeConfiguration(name: value))
        bridgePositions.append(line.position)
    }

    // MARK: Included files

    private mutating func include(directory: String, _ line: ConfigurationLine, _ cursor: SectionCursor) {
        guard cursor.isMainFile else {
            log.warning("it has no effect in an included file.", at: line.position, option: line.name)
            return
        }
        let names: [String]
        do {
            names = try files.names(inDirectory: directory)
        } catch {
            log.error("Unable to open include_dir '\(error.path)'. \(error.reason).", at: line.position, option: line.name)
            return
        }
        let included = names.filter { $0.hasSuffix(".conf") && $0.utf8.count > ".conf".utf8.count }
        guard included.count <= Limits.includedFilesMax else {
            log.error(
                "the directory holds more than \(Limits.includedFilesMax) files *.conf.", at: line.position, option: line.name)
            return
        }
        for name in included.sorted(by: Self.comesBefore) {
            if log.isFull { return }
            include(file: directory.hasSuffix("/") ? directory + name : directory + "/" + name, line)
        }
    }

    private mutating func include(file: String, _ line: ConfigurationLine) {
        do {
            let bytes = try files.contents(ofFile: file, bytesMax: Limits.fileBytesMax)
            let lines = LineReader.lines(of: bytes, file: file, log: &log)
            handle(lines, isMainFile: false)
        } catch {
            log.error("Unable to open config file \(error.path). \(error.reason).", at: line.position, option: line.name)
        }
    }

    /// The order of included files: by letters without regard to their case, upper before lower case of the same
    /// letter.
    static func comesBefore(_ a: String, _ b: String) -> Bool {
        a.utf8.lexicographicallyPrecedes(b.utf8) { left, right in
            (upperCase(left), left) < (upperCase(right), right)
        }
    }

    private static func upperCase(_ byte: UInt8) -> UInt8 {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) ? byte - 32 : byte
    }
}

/// Where in a file the reader is. Each file has its own: the sections of an included file end with it.
struct SectionCursor: Sendable {
    /// The listener that listener options go to: an index into the drafts, of which the first is the default listener.
    var listener = 0
    /// The bridge that bridge options go to.
    var bridge: Int?
    /// The section that the last `listener` or `connection` line opened.
    var section = Section.none
    /// The plug-in that `plugin_opt_*` goes to.
    var plugin: Int?
    /// The file is the one that was named on the command line.
    var isMainFile: Bool

    enum Section: Sendable {
        case none
        case listener
        case bridge
    }
}

/// Finds in a line what belongs to the notation of other programs' files: equals signs, quotes and comments, which
/// mosquitto would take for a part of the value.
struct ValueNotation {
    /// Without the quotes of a path.
    private(set) var value: String
    /// Why it cannot be meant so, as a sentence.
    private(set) var error: String?
    /// Sentences.
    private(set) var warnings: [String] = []

    /// - Parameters:
    ///   - value: what follows the option's name.
    ///   - option: the row of that name.
    ///   - name: the option as the line has it.
    init(_ value: String, of option: ConfigurationOption, named name: String) {
        self.value = value
        let isPath = Self.pathShapes.contains(option.shape)
        // Names and passwords may be anything.
        let isText = ["TEXT", "NAME"].contains(option.shape)
        let isOther = ["VALUE", "FORMAT", "LIST"].contains(option.shape) || option.name == "topic"
        if value.hasPrefix("="), !isText, !isOther {
            let rest = ConfigurationOption.shown(value.dropFirst().trimmed, of: option.name)
            error = "there is no = between an option and its value. Write: \(name) \(rest.isEmpty ? option.shape : rest)."
            return
        }
        if let inner = Self.withoutQuotes(value) {
            if isPath {
                self.value = inner
                warnings.append("the quotes are taken off; mosquitto would take them for a part of the path.")
            } else if isText {
                warnings.append("the quotes are a part of the value; write it without them if they are not meant.")
            }
        }
        // A comment may stand behind the name of a bridge.
        guard option.name != "connection" else { return }
        if isPath && value.holds(" #") || isText && value.holds(" # ") {
            warnings.append("what follows # is a part of the value; a comment has a line of its own.")
        }
    }

    private static let pathShapes = ["PATH", "DIRECTORY"]

    /// What stands between quotes of one kind; nil where there are none, or nothing between them.
    static func withoutQuotes(_ text: String) -> String? {
        guard let first = text.first, first == "\"" || first == "'", text.count > 2, text.last == first else { return nil }
        return String(text.dropFirst().dropLast())
    }

    /// What to type instead of a value in quotes, as a sentence with a blank before it; empty where there are none.
    static func advice(onQuotesAround text: String, of name: String) -> String {
        withoutQuotes(text).map { " Write it without quotes: \(name) \($0)." } ?? ""
    }

    /// What may be shown of a name that has perhaps taken a sign and a value with it.
    static func shown(name: String) -> String {
        guard let sign = name.firstIndex(where: { $0 == "=" || $0 == ":" }),
            let row = ConfigurationOption.named(String(name[..<sign])), name.index(after: sign) < name.endIndex
        else { return name }
        return name[...sign] + ConfigurationOption.shown(String(name[name.index(after: sign)...]), of: row.identity)
    }

    /// What to type instead of a name that has taken a sign with it, as in `port=1883` and `port: 1883`; nil for any
    /// other.
    static func advice(onName name: String, value: String) -> String? {
        guard let sign = name.firstIndex(where: { $0 == "=" || $0 == ":" }) else { return nil }
        let option = String(name[..<sign])
        guard let row = ConfigurationOption.named(option) else { return nil }
        let rest = ConfigurationOption.shown("\(name[name.index(after: sign)...]) \(value)".trimmed, of: row.identity)
        let isShown = !rest.isEmpty && !ConfigurationOption.isSecret(row.identity) && row.shape != "TEXT"
        return "A blank is between an option and its value. Write: \(option) \(isShown ? rest : row.shape)."
    }
}

extension Bool {
    /// The first word of a value as a boolean; nil if it is none.
    init?(wordOf value: String) {
        guard let isOn = ValueSyntax<Bool>.boolean.parse(value.words.first ?? "") else { return nil }
        self = isOn
    }
}

extension Limits {
    /// Files that include_dir reads; more are an error. Bytes: `fileBytesMax` each at most.
    static let includedFilesMax = 1000
}
