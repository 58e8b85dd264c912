/// One thing that the reader has to say about a configuration: what, where, and whether the broker may start in spite
/// of it.
public struct Diagnostic: Sendable, Equatable, CustomStringConvertible {
    public enum Severity: Sendable {
        /// The configuration is not usable.
        case error
        /// The configuration is usable; something in it has no effect, is outdated, or is probably not what was meant.
        case warning
    }

    public var severity: Severity
    /// The file as it was named on the command line or by `include_dir`; empty when there is none.
    public var file: String
    /// Counted from 1; nil when the whole file is meant.
    public var line: Int?
    /// The option that the line names, as it is written there.
    public var option: String?
    /// A sentence with its full stop, or several.
    public var message: String

    public init(severity: Severity, file: String, line: Int? = nil, option: String? = nil, message: String) {
        self.severity = severity
        self.file = file
        self.line = line
        self.option = option
        self.message = message
    }

    /// One line for the log: `Error: martlet.conf:12: max_qos: found "7", expected 0, 1 or 2.`
    public var description: String {
        var text = severity == .error ? "Error: " : "Warning: "
        if !file.isEmpty { text += line.map { "\(file):\($0): " } ?? "\(file): " }
        if let option { text += "\(option): " }
        return text + message
    }
}

/// Where the lines stand that a configuration was made of: for messages about what they say.
public struct ConfigurationLocations: Sendable, Equatable {
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

    mutating func record(_ line: ConfigurationLine, _ option: ConfigurationOption, scope: ConfigurationReading.Scope) {
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
    ///   - listener: the index of the listener that is meant; a line in its section comes before one for the whole
    ///     broker.
    ///   - value: what the line's value has to end with, or have among its words; nil for any.
    /// - Returns: the last such line, since that one counts; nil when no line names the option.
    public func line(of option: String, listener: Int? = nil, value: String? = nil) -> Line? {
        let candidates = lines.filter { line in
            guard line.identity == option || line.name == option else { return false }
            guard let value else { return true }
            // Whoever asks may have what may be shown of it.
            let shown = ConfigurationOption.shown(line.value, of: line.name)
            return line.value.hasSuffix(value) || shown.hasSuffix(value) || line.value.words.contains(value)
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
    public init(severity: Severity, at line: ConfigurationLocations.Line?, in locations: ConfigurationLocations, message: String) {
        self.init(
            severity: severity, file: line?.file ?? locations.file ?? "", line: line?.line, option: line?.name, message: message)
    }
}

/// Finds the lines that let in whom an earlier file keeps out.
///
/// Within one file the last line counts, as with mosquitto: whoever wrote it has both in front of them. The files of an
/// `include_dir` are put beside each other by people who have read one of them, and a line that is meant for its own
/// file's listener would open the others' too.
struct OpeningCheck {
    /// In the order in which they count.
    let lines: [ConfigurationLocations.Line]
    let listeners: [ListenerDraft]

    func run(log: inout DiagnosticLog) {
        checkLogins(&log)
        checkDefaultListener(&log)
        for gate in Self.gates { check(gate, &log) }
        checkRoles(&log)
    }

    // MARK: Logins

    /// `allow_anonymous` holds for the listeners of every file.
    private func checkLogins(_ log: inout DiagnosticLog) {
        guard let conflict = conflict(among: lines.filter(Self.isOfAllListeners), rank: Self.rank) ?? unsaidConflict() else {
            return warnOfOpenUsers(&log)
        }
        let opened = listeners.filter { $0.isOpened(by: conflict.opening) }.compactMap(\.location)
        let places = opened.isEmpty ? "every listener" : opened.joined(separator: ", ")
        report(
            conflict.opening,
            "everybody could come in without a login on \(places), where \(conflict.closing.location) asks for one. To let everybody in on one "
                + "listener, write listener_allow_anonymous true below its line; to let them in on all, change \(conflict.closing.location).",
            &log)
    }

    /// Users that one file has, for the listeners that it has too, say that a login is asked for: that is the default
    /// where there is a listener. Another file's `allow_anonymous true` ends it.
    private func unsaidConflict() -> Conflict? {
        guard let index = lines.lastIndex(where: Self.isOfAllListeners), Self.rank(lines[index]) == 1 else { return nil }
        let opening = lines[index]
        let others = lines[..<index].filter { $0.file != opening.file }
        guard !others.contains(where: Self.isOfAllListeners),
            let users = others.last(where: { Self.givesUsers($0) }),
            listeners.contains(where: { $0.isOpened(by: opening) && $0.stands(in: others) })
        else { return nil }
        return Conflict(opening: opening, closing: users)
    }

    /// A file may bring users for its listener behind another one that lets everybody in: nobody is asked for them
    /// there.
    private func warnOfOpenUsers(_ log: inout DiagnosticLog) {
        guard let opening = lines.last(where: Self.isOfAllListeners), Self.rank(opening) == 1,
            let users = lines.last(where: { $0.file != opening.file && Self.givesUsers($0) })
        else { return }
        let own = lines.filter { $0.file == users.file }
        let opened = listeners.filter { $0.isOpened(by: opening) && $0.stands(in: own) }.compactMap(\.location)
        guard !opened.isEmpty else { return }
        log.warning(
            "everybody may come in without a login on \(opened.joined(separator: ", ")), for \(opening.location) lets them in. To ask for one there, "
                + "write listener_allow_anonymous false below the listener.",
            at: SourcePosition(file: users.file, line: users.line), option: users.name)
    }

    /// The default listener is the only one that several files can speak of.
    private func checkDefaultListener(_ log: inout DiagnosticLog) {
        let own = lines.filter { line in
            Self.isOfAllListeners(line) || (line.identity == "listener_allow_anonymous" && line.scope == .listener(0))
        }
        guard let conflict = conflict(among: own, rank: Self.rank), conflict.opening.scope == .listener(0) else { return }
        report(
            conflict.opening,
            "no line \"listener PORT\" stands above it in this file, so that everybody could come in without a login on the default listener, "
                + "where \(conflict.closing.location) asks for one. Write it below the listener that is meant.", &log)
    }

    private static func isOfAllListeners(_ line: ConfigurationLocations.Line) -> Bool {
        line.identity == "allow_anonymous" && line.scope == .broker
    }

    private static let givers = [
        "password_file", "martlet_scram_file", "martlet_jwt_keys", "martlet_jwt_secret_file", "martlet_introspection_url",
        "martlet_http_auth_url", "martlet_ldap_url",
    ]

    private static func givesUsers(_ line: ConfigurationLocations.Line) -> Bool {
        if givers.contains(line.identity) { return line.scope == .broker }
        guard ["plugin", "global_plugin"].contains(line.identity) else { return false }
        return [.dynamicSecurity, .passwordFile, .goAuth].contains(BuiltInPlugin(path: line.value))
    }

    private static func rank(_ line: ConfigurationLocations.Line) -> Int? { rank(of: line, among: ["false", "true"]) }

    // MARK: Other gates

    /// An option whose values let in ever more.
    private struct Gate {
        let option: String
        /// From the closed one to the open one.
        let values: [String]
        /// What could be done, as the beginning of a sentence.
        let opened: String
    }

    private static let gates = [
        Gate(
            option: "martlet_metrics_anonymous", values: ["false", "true"],
            opened: "everybody who reaches a listener with protocol http_api could read what is measured without a login"),
        Gate(
            option: "martlet_http_payloads", values: ["none", "admin", "viewer"],
            opened: "more people could see the payloads of messages over HTTP"),
    ]

    private func check(_ gate: Gate, _ log: inout DiagnosticLog) {
        let own = lines.filter { $0.identity == gate.option }
        guard let conflict = conflict(among: own, rank: { Self.rank(of: $0, among: gate.values) }) else { return }
        report(
            conflict.opening, "\(gate.opened), which \(conflict.closing.location) forbids. If it is meant, change that line.", &log)
    }

    /// `martlet_http_user` is given for each user, and the last line of a user counts.
    private func checkRoles(_ log: inout DiagnosticLog) {
        let own = lines.filter { $0.identity == "martlet_http_user" }
        for user in Set(own.compactMap { $0.value.words.first }).sorted() {
            let conflict = conflict(among: own.filter { $0.value.words.first == user }) { line in
                line.value.words.dropFirst().first.flatMap { ["viewer", "admin"].firstIndex(of: $0) }
            }
            guard let conflict else { continue }
            report(
                conflict.opening,
                "\(user.quoted) would be an admin, whom \(conflict.closing.location) makes a viewer. If it is meant, change that line.",
                &log)
        }
    }

    // MARK: -

    /// A line, and the one of an earlier file that it takes the effect from.
    private struct Conflict {
        let opening: ConfigurationLocations.Line
        let closing: ConfigurationLocations.Line
    }

    /// Whether the line that counts opens more than the last line of an earlier file does.
    private func conflict(
        among lines: [ConfigurationLocations.Line], rank: (ConfigurationLocations.Line) -> Int?
    ) -> Conflict? {
        guard let opening = lines.last, let own = rank(opening) else { return nil }
        var lastOfFile: [String: ConfigurationLocations.Line] = [:]
        for line in lines where line.file != opening.file { lastOfFile[line.file] = line }
        let closing = lines.last { line in
            lastOfFile[line.file] == line && rank(line).map { $0 < own } ?? false
        }
        return closing.map { Conflict(opening: opening, closing: $0) }
    }

    private static func rank(of line: ConfigurationLocations.Line, among values: [String]) -> Int? {
        let word = line.value.words.first.map { ["1": "true", "0": "false"][$0] ?? $0 }
        return word.flatMap { values.firstIndex(of: $0) }
    }

    private func report(_ line: ConfigurationLocations.Line, _ message: String, _ log: inout DiagnosticLog) {
        log.error(message, at: SourcePosition(file: line.file, line: line.line), option: line.name)
    }
}

extension ConfigurationLocations.Line {
    fileprivate var location: String { "\(file):\(line)" }
}

extension ListenerDraft {
    /// Whether a line of another file decides who needs no login here.
    fileprivate func isOpened(by line: ConfigurationLocations.Line) -> Bool {
        guard let position, position.file != line.file, allowsAnonymous == nil else { return false }
        return !usesIdentityAsUserName && !usesSubjectAsUserName && !configuration.isAdministrationSocket
    }

    /// Whether one of the lines opens it.
    fileprivate func stands(in lines: [ConfigurationLocations.Line]) -> Bool {
        lines.contains { $0.file == position?.file && $0.line == position?.line }
    }

    /// What messages call it: `port 1883 (conf.d/network.conf:1)`.
    fileprivate var location: String? {
        guard let position else { return nil }
        let name =
            switch configuration.endpoint {
            case .tcp(let port, let host): "port \(port)\(host.map { " of \($0)" } ?? "")"
            case .loopback(let port): "port \(port) of this machine"
            case .unixSocket(let path): path
            }
        return "\(name) (\(position.file):\(position.line))"
    }
}
