internal import Platform

/// An `acl_file` as it is edited: every line stays as it is and where it is, comments too, but for the rules that are
/// changed.
///
/// A rule is named by its line. Who changes one says what stood there when they read it, so that nobody changes another
/// rule than they saw.
public struct AccessFileEdit: Sendable {
    /// The users that a rule is for.
    public enum Subject: Sendable, Hashable {
        /// Clients without a user name: what stands before the first `user`.
        case anonymous
        case user(String)
        /// `pattern`: everybody.
        case everybody
    }

    /// A line that says something of topics.
    public struct Rule: Sendable, Hashable {
        public let subject: Subject
        /// `read`, `write`, `readwrite` or `deny`.
        public let access: String
        /// What it asks beside the topic, as `qos<=1,from=10.0.0.0/8`; empty for nothing.
        public let conditions: String
        public let topic: String

        public init(_ subject: Subject, access: String, conditions: String = "", topic: String) {
            (self.subject, self.access, self.conditions, self.topic) = (subject, access, conditions, topic)
        }

        fileprivate var type: String { conditions.isEmpty ? access : "\(access),\(conditions)" }

        fileprivate var text: String {
            if case .everybody = subject { return "pattern \(type) \(topic)" }
            return "topic \(type) \(topic)"
        }
    }

    /// A rule as it stands in the file.
    public struct Entry: Sendable, Hashable {
        /// Counted from 1.
        public let line: Int
        /// The whole line, by which a change says which rule it means.
        public let text: String
        public let rule: Rule
    }

    /// Why a change is not made.
    public enum Complaint: Error, Sendable, Equatable {
        /// Another text stands in the line than was said.
        case moved
        /// A name or a topic that cannot stand in a file: it is empty, holds a line break or a zero byte, or begins or
        /// ends with a blank.
        case unwritable
        case unknownAccess
        /// A condition that is none, in a sentence.
        case condition(String)
    }

    public static let accesses = ["read", "write", "readwrite", "deny"]

    private var lines: [String]

    /// Takes the bytes of a file, which is UTF-8: the broker reads no other.
    public init(_ bytes: [UInt8]) {
        var bytes = bytes
        ByteOrderMark.drop(from: &bytes)
        lines = String(decoding: bytes, as: UTF8.self).utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
            .map { String(decoding: $0.last == UInt8(ascii: "\r") ? $0.dropLast() : $0, as: UTF8.self) }
        if lines.last?.isEmpty == true { lines.removeLast() }
    }

    /// Reads the file at `path`.
    public init(path: String) throws(SecurityFileError) { self.init(try SecurityFileReader.contents(of: path)) }

    /// The bytes of the file; each line ends with a line feed.
    public var bytes: [UInt8] { lines.flatMap { Array($0.utf8) + [UInt8(ascii: "\n")] } }

    /// The rules, in the order of the file.
    public var entries: [Entry] {
        var user: String?
        var entries: [Entry] = []
        for (index, text) in lines.enumerated() {
            let words = Self.words(of: text)
            switch words.first {
            case "user": user = words.rest
            case "topic", "pattern":
                let isPattern = words.first == "pattern"
                let subject: Subject = isPattern ? .everybody : user.map { .user($0) } ?? .anonymous
                let (access, topic) = Self.split(words.rest)
                // Conditions follow behind a comma.
                let comma = access.utf8.firstIndex(of: UInt8(ascii: ",")) ?? access.endIndex
                let isAccess = !topic.isEmpty && Self.accesses.contains(String(access[..<comma]))
                let rule =
                    isAccess
                    ? Rule(
                        subject, access: String(access[..<comma]), conditions: String(access[comma...].dropFirst()), topic: topic)
                    : Rule(subject, access: "readwrite", topic: words.rest)
                entries.append(Entry(line: index + 1, text: text, rule: rule))
            default: continue
            }
        }
        return entries
    }

    /// Puts a rule behind those of the same subject; a user without any gets a section at the end.
    ///
    /// - Returns: its line, counted from 1.
    public mutating func add(_ rule: Rule) throws(Complaint) -> Int {
        try Self.check(rule)
        let place: Int
        if let last = entries.last(where: { $0.rule.subject == rule.subject }) {
            place = last.line
        } else {
            switch rule.subject {
            case .everybody: place = lines.count
            case .anonymous: place = beginningOfUsers
            case .user(let name):
                if let section = lines.lastIndex(where: { Self.words(of: $0) == ("user", name) }) {
                    place = section + 1
                } else {
                    if lines.last.map({ !$0.isEmpty }) ?? false { lines.append("") }
                    lines.append("user \(name)")
                    place = lines.count
                }
            }
        }
        lines.insert(rule.text, at: place)
        return place + 1
    }

    /// Puts another access, conditions and topic in the place of a rule's; it stays the same subject's.
    public mutating func change(
        line: Int, from text: String, access: String, conditions: String = "", topic: String
    ) throws(Complaint) {
        let entry = try entry(line, text)
        let rule = Rule(entry.rule.subject, access: access, conditions: conditions, topic: topic)
        try Self.check(rule)
        lines[line - 1] = rule.text
    }

    /// Takes a rule out. A user's section stays, be it empty.
    public mutating func remove(line: Int, text: String) throws(Complaint) {
        _ = try entry(line, text)
        lines.remove(at: line - 1)
    }

    private func entry(_ line: Int, _ text: String) throws(Complaint) -> Entry {
        guard let entry = entries.first(where: { $0.line == line }), entry.text == text else { throw .moved }
        return entry
    }

    /// Where the first `user` begins, with the comments right before it; the end of a file without one.
    private var beginningOfUsers: Int {
        var place = lines.firstIndex { Self.words(of: $0).first == "user" } ?? lines.count
        guard place < lines.count else { return place }
        while place > 0, lines[place - 1].hasPrefix("#") { place -= 1 }
        return place
    }

    private static func check(_ rule: Rule) throws(Complaint) {
        guard accesses.contains(rule.access) else { throw .unknownAccess }
        do throws(AccessType.Complaint) {
            guard !rule.conditions.utf8.contains(UInt8(ascii: " ")) else {
                throw AccessType.Complaint("conditions hold no blank; write them as qos<=1,retain=no.")
            }
            _ = try AccessType(rule.type)
        } catch {
            throw .condition(error.description)
        }
        if case .user(let name) = rule.subject { try check(name) }
        try check(rule.topic)
    }

    private static func check(_ text: String) throws(Complaint) {
        let bytes = Array(text.utf8)
        guard !bytes.isEmpty, !bytes.contains(where: { [0, 10, 13].contains($0) }), bytes.trimmedBlanks.count == bytes.count else {
            throw .unwritable
        }
    }

    /// The first word of a line and what follows it, without blanks around both; nothing of a comment.
    private static func words(of text: String) -> (first: String, rest: String) {
        text.hasPrefix("#") ? ("", "") : split(text)
    }

    private static func split(_ text: String) -> (first: String, rest: String) {
        let bytes = Array(text.utf8).trimmedEnd.drop { $0 == UInt8(ascii: " ") }
        let word = bytes.prefix { $0 != UInt8(ascii: " ") }
        return (String(decoding: word, as: UTF8.self), String(decoding: bytes[word.endIndex...].trimmedBlanks, as: UTF8.self))
    }
}
