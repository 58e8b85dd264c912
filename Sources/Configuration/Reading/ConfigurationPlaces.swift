/// Where the lines stand that a configuration was made of: for messages about what they say.
public struct ConfigurationPlaces: Sendable, Equatable {
    /// A line that named an option.
    public struct Line: Sendable, Equatable {
        /// The file as it was named on the command line or by `include_dir`.
        public var file: String
        /// Counted from 1.
        public var line: Int
        /// The option as it is written there.
        public var name: String
        /// What follows it, with its variables replaced.
        public var value: String
        /// The option that counts, where the line has another name for it.
        var identity: String
        var scope: ConfigurationReading.Scope
    }

    /// Every line that was understood, in the order in which the lines count.
    public private(set) var lines: [Line] = []
    /// Which of the file's listeners each listener of the configuration comes from.
    private var drafts: [Int] = []
    /// The main file, nil when there is none.
    public private(set) var file: String?

    /// No file: everything is a default, or stands on the command line.
    public init() {}

    init(file: String) { self.file = file }

    mutating func note(_ line: ConfigurationLine, _ option: ConfigurationOption, scope: ConfigurationReading.Scope) {
        // The names of a family are told apart by what follows.
        let identity = option.identity + (option.name.hasSuffix("_") ? String(line.name.dropFirst(option.name.count)) : "")
        lines.append(
            Line(
                file: line.position.file, line: line.position.line, name: line.name, value: line.value, identity: identity,
                scope: scope))
    }

    mutating func recordListener(ofDraft draft: Int) { drafts.append(draft) }

    /// The line that gave an option its value.
    ///
    /// - Parameters:
    ///   - option: the option's name.
    ///   - listener: the index of the listener that is meant; a line in its section comes before one for the whole broker.
    ///   - value: what the line's value has to end with; nil for any.
    /// - Returns: the last such line, since that one counts; nil when no line names the option.
    public func line(of option: String, listener: Int? = nil, value: String? = nil) -> Line? {
        let candidates = lines.filter { line in
            (line.identity == option || line.name == option) && (value.map { line.value.hasSuffix($0) } ?? true)
        }
        let own = listener.flatMap { drafts.indices.contains($0) ? drafts[$0] : nil }
        return candidates.last { line in own.map { line.scope == .listener($0) } ?? false }
            ?? candidates.last { listener == nil || $0.scope == .broker }
    }

    /// The listener in whose section a line stands, or that it opens; nil for a line that is for the whole broker.
    public func listener(of line: Line) -> Int? {
        if case .listener(let draft) = line.scope { return drafts.firstIndex(of: draft) }
        return drafts.indices.first { opening(ofListener: $0) == line }
    }

    /// The line that opened the section of a bridge; nil where no file has one of this name.
    public func opening(ofBridge name: String) -> Line? { lines.first { $0.identity == "connection" && $0.value == name } }

    /// The lines of a bridge's section below that one, in order.
    public func lines(ofBridge name: String) -> [Line] {
        guard let index = lines.firstIndex(where: { $0.identity == "connection" && $0.value == name }) else { return [] }
        let number = lines[..<index].count { $0.identity == "connection" }
        return lines.filter { $0.scope == .bridge(number) }
    }

    /// The line that opened a listener; nil for the one that needs none.
    public func opening(ofListener index: Int) -> Line? {
        guard drafts.indices.contains(index), drafts[index] > 0 else { return nil }
        let openings = lines.filter { $0.identity == "listener" }
        return openings.indices.contains(drafts[index] - 1) ? openings[drafts[index] - 1] : nil
    }
}

extension Diagnostic {
    /// An error or a warning about what a line says; about no line in particular when it is nil.
    public init(severity: Severity, at line: ConfigurationPlaces.Line?, in places: ConfigurationPlaces, message: String) {
        self.init(
            severity: severity, file: line?.file ?? places.file ?? "", line: line?.line, option: line?.name, message: message)
    }
}
