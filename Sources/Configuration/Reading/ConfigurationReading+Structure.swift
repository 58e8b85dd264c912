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
                    "the listener of \(twin.place(from: line.position)) has the same address and port.", at: line.position,
                    option: line.name
                )
                return
            }
            draft.configuration.endpoint = endpoint
        case .failure(let refusal):
            log.error(refusal.message, at: line.position, option: line.name)
        }
    }

    /// Why a `listener` line names no place.
    private struct PlaceRefusal: Error {
        /// A sentence.
        let message: String
    }

    private func endpoint(port: UInt16, place: String) -> Result<ListenerEndpoint, PlaceRefusal> {
        if port == 0 {
            // sockaddr_un.sun_path has 108 bytes, one of them for the final zero.
            guard !place.isEmpty else { return .failure(PlaceRefusal(message: "port 0 needs the path of a Unix socket after it.")) }
            guard place.utf8.count <= 107 else {
                return .failure(PlaceRefusal(message: "the path of the Unix socket is longer than 107 bytes."))
            }
            return .success(.unixSocket(path: place))
        }
        guard place.words.count <= 1 else {
            return .failure(PlaceRefusal(message: "found \(place.quoted), expected one address."))
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
                "it has to stand before the first security option, which is on \(securityPosition.place(from: line.position)).",
                at: line.position, option: line.name)
        }
        hasListenerSecurity = isOn
    }

    // MARK: Bridges

    private mutating func openBridge(_ value: String, _ line: ConfigurationLine, _ cursor: inout SectionCursor) {
        if let twin = configuration.bridges.firstIndex(where: { $0.name == value }) {
            log.error(
                "the bridge of \(bridgePositions[twin].place(from: line.position)) has the same name.", at: line.position,
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

    /// The order of included files: by letters without regard to their case, upper before lower case of the same letter.
    static func comesBefore(_ a: String, _ b: String) -> Bool {
        a.utf8.lexicographicallyPrecedes(b.utf8) { left, right in
            (upperCase(left), left) < (upperCase(right), right)
        }
    }

    private static func upperCase(_ byte: UInt8) -> UInt8 {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) ? byte - 32 : byte
    }
}
