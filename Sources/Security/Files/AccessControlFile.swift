public import BrokerModel
internal import MQTTCodec
internal import Platform

/// mosquitto's `acl_file`.
///
///     topic read public/#            # before any user: for clients without a user name
///     user anna
///     topic readwrite home/anna/#
///     topic deny home/anna/safe
///     pattern write devices/%c/#     # for everybody, wherever it stands
///
/// Words are parted by spaces; without a word for the access it is readwrite, and a filter with spaces needs the word. There are no comments
/// at the end of a line: what looks like one above belongs to the filter.
public struct AccessControlFile: Sendable {
    public let control: AccessControl
    /// Warnings of what is probably not meant as it stands.
    public let warnings: [SecurityFileProblem]

    /// Reads the file at `path`; the rest as for its bytes.
    public init(path: String, spansLevels: Bool = false) throws(SecurityFileError) {
        try self.init(SecurityFileReader.contents(of: path), file: path, spansLevels: spansLevels)
    }

    /// Reads the bytes of a file.
    ///
    /// - Parameters:
    ///   - bytes: all of the file.
    ///   - file: what messages call it.
    ///   - spansLevels: whether `%c` and `%u` stand for several levels when the name holds a `/`, see `AccessControl`.
    public init(_ bytes: [UInt8], file: String, spansLevels: Bool = false) throws(SecurityFileError) {
        var reading = Reading(lines: SecurityFileLines(bytes, file: file))
        reading.run()
        try reading.lines.check()
        control = AccessControl(
            anonymous: reading.anonymous, users: reading.users, patterns: reading.patterns, spansLevels: spansLevels,
            file: FullPath.of(file))
        warnings = reading.lines.problems
    }

    private struct Reading {
        var lines: SecurityFileLines
        var user: EncodedString?
        var anonymous: [AccessRule] = []
        var users: [EncodedString: [AccessRule]] = [:]
        var patterns: [AccessRule] = []

        mutating func run() {
            for line in lines.lines {
                let (word, rest) = Self.firstWord(of: line.text[...])
                switch String(decoding: word, as: UTF8.self) {
                case "user": takeUser(rest, at: line.number)
                case "topic": takeRule(rest, isPattern: false, at: line.number)
                case "pattern": takeRule(rest, isPattern: true, at: line.number)
                case "": continue
                case let other: lines.report(Self.complaint(about: other), line: line.number)
                }
            }
        }

        private mutating func takeUser(_ text: ArraySlice<UInt8>, at line: Int) {
            let name = text.trimmedBlanks
            guard !name.isEmpty else {
                lines.report("\"user\" lacks the user's name.", line: line)
                return
            }
            guard let name = EncodedString(name) else {
                lines.report("the user's name is not valid UTF-8, or longer than 65535 bytes.", line: line)
                return
            }
            user = name
        }

        private mutating func takeRule(_ text: ArraySlice<UInt8>, isPattern: Bool, at line: Int) {
            let keyword = isPattern ? "pattern" : "topic"
            var (word, rest) = Self.firstWord(of: text)
            guard !word.isEmpty else {
                lines.report("\"\(keyword)\" lacks its topic filter.", line: line)
                return
            }
            var permission: AccessPermission = [.read, .write]
            rest = rest.trimmedBlanks
            if !rest.isEmpty {
                let access = String(decoding: word, as: UTF8.self)
                guard let named = Self.permissions[access] else {
                    lines.report(
                        "\"\(access)\" is not an access type; expected read, write, readwrite or deny before a filter that holds a space.",
                        line: line)
                    return
                }
                permission = named
                word = rest
            }
            guard word.count <= 65_535, EncodedString(word) != nil, let filter = AccessFilter(word, isPattern: isPattern) else {
                lines.report(
                    "\"\(String(decoding: word, as: UTF8.self))\" is not a topic filter: + and # must be a whole level, and # the last one.",
                    line: line)
                return
            }
            take(AccessRule(permission, filter, line: line), isPattern: isPattern, at: line)
        }

        private mutating func take(_ rule: AccessRule, isPattern: Bool, at line: Int) {
            if isPattern {
                if rule.filter.hasPartialSubstitution {
                    lines.report(
                        "%c and %u are replaced only where they are a whole level; here they are taken literally.", line: line,
                        severity: .warning)
                } else if !rule.filter.isPersonal {
                    lines.report("the pattern holds neither %c nor %u.", line: line, severity: .warning)
                }
                patterns.append(rule)
            } else if let user {
                users[user, default: []].append(rule)
            } else {
                anonymous.append(rule)
            }
        }

        /// The word up to a space, after spaces, and what follows it.
        private static func firstWord(of text: ArraySlice<UInt8>) -> (word: ArraySlice<UInt8>, rest: ArraySlice<UInt8>) {
            let start = text.drop { $0 == UInt8(ascii: " ") }
            let word = start.prefix { $0 != UInt8(ascii: " ") }
            return (word, start[word.endIndex...])
        }

        private static func complaint(about word: String) -> String {
            if word.first == "#" { return "a comment has to begin at the first character of its line." }
            if word.contains("\t") { return "words are separated by spaces here, not by tabs." }
            return "\"\(word)\" is not known here; expected user, topic or pattern."
        }

        private static let permissions: [String: AccessPermission] = [
            "read": .read, "write": .write, "readwrite": [.read, .write], "deny": .deny,
        ]
    }
}
