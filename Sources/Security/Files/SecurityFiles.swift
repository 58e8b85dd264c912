public import BrokerModel
internal import MQTTCodec
internal import Platform

/// mosquitto's `psk_file`: `identity:HEXKEY` on each line, for TLS without certificates.
public struct PreSharedKeyFile: Sendable {
    /// Warnings of what is probably not meant as it stands.
    public let warnings: [SecurityFileProblem]
    private let keys: [[UInt8]: [UInt8]]

    /// Reads the file at `path`.
    public init(path: String) throws(SecurityFileError) {
        try self.init(SecurityFileReader.contents(of: path), file: path)
    }

    /// Reads the bytes of a file; `file` is what messages call it.
    public init(_ bytes: [UInt8], file: String) throws(SecurityFileError) {
        var lines = SecurityFileLines(bytes, file: file)
        var keys: [[UInt8]: [UInt8]] = [:]
        for line in lines.lines {
            guard let colon = line.text.firstIndex(of: UInt8(ascii: ":")) else {
                lines.report(
                    "the line has no colon between an identity and a key, and is passed over.", line: line.number,
                    severity: .warning)
                continue
            }
            let identity = Array(line.text[..<colon].trimmedBlanks)
            let digits = line.text[(colon + 1)...].trimmedBlanks
            if identity.isEmpty {
                lines.report("the identity is empty.", line: line.number)
            } else if digits.isEmpty {
                lines.report("the key is empty.", line: line.number)
            } else if keys[identity] != nil {
                lines.report(
                    "the identity \(String(decoding: identity, as: UTF8.self)) is in the file twice.", line: line.number)
            } else if let key = Self.key(digits) {
                keys[identity] = key
            } else {
                lines.report(
                    "the key is not a sequence of at most \(Limits.preSharedKeyBytesMax) bytes as hexadecimal digits.",
                    line: line.number)
            }
        }
        try lines.check()
        warnings = lines.problems
        self.keys = keys
    }

    /// The key of an identity, nil for one that the file does not have.
    public func key(for identity: [UInt8]) -> [UInt8]? { keys[identity] }

    public var count: Int { keys.count }

    private static func key(_ digits: ArraySlice<UInt8>) -> [UInt8]? {
        guard digits.count <= 2 * Limits.preSharedKeyBytesMax else { return nil }
        var values: [UInt8] = []
        for digit in digits {
            guard let value = Character(UnicodeScalar(digit)).hexDigitValue else { return nil }
            values.append(UInt8(value))
        }
        // An odd number of digits lacks the first one's zero, as OpenSSL reads numbers.
        if !values.count.isMultiple(of: 2) { values.insert(0, at: 0) }
        return stride(from: 0, to: values.count, by: 2).map { values[$0] << 4 | values[$0 + 1] }
    }
}

/// A file with an address or a network on each line, as block lists are published: what follows `#` or `;` is a
/// comment.
public struct AddressListFile<Network: Sendable>: Sendable {
    public let networks: [Network]
    /// Warnings of what is probably not meant as it stands.
    public let warnings: [SecurityFileProblem]

    /// Reads the file at `path`; the rest as for its bytes.
    public init(path: String, network: (String) -> Network?) throws(SecurityFileError) {
        try self.init(SecurityFileReader.contents(of: path), file: path, network: network)
    }

    /// Reads the bytes of a file.
    ///
    /// - Parameters:
    ///   - bytes: all of the file.
    ///   - file: what messages call it.
    ///   - network: reads one; nil for a text that is none.
    public init(_ bytes: [UInt8], file: String, network: (String) -> Network?) throws(SecurityFileError) {
        var lines = SecurityFileLines(bytes, file: file)
        var networks: [Network] = []
        for line in lines.lines {
            let text = line.text.prefix { $0 != UInt8(ascii: "#") && $0 != UInt8(ascii: ";") }.trimmedBlanks
            guard !text.isEmpty else { continue }
            guard networks.count < Limits.networksMax else {
                lines.report("the file has more than \(Limits.networksMax) networks.", line: line.number)
                break
            }
            let word = String(decoding: text, as: UTF8.self)
            if let network = network(word) {
                networks.append(network)
            } else {
                lines.report(
                    "found \"\(word.prefix(80))\", expected an IPv4 or IPv6 address or network, such as 192.0.2.1, 10.0.0.0/8 or "
                        + "2001:db8::/32.", line: line.number)
            }
        }
        if networks.isEmpty, lines.problems.isEmpty {
            lines.report("the file has no network.", line: 1, severity: .warning)
        }
        try lines.check()
        (self.networks, warnings) = (networks, lines.problems)
    }
}

/// One thing that is wrong with a file of users, rules or keys.
public struct SecurityFileProblem: Sendable, Equatable, CustomStringConvertible {
    public enum Severity: Sendable {
        /// The file is not usable.
        case error
        /// The file is usable; a line is probably not what was meant.
        case warning
    }

    public var severity: Severity
    /// The option that names the file, where it is known.
    public var option: String?
    /// As the configuration names it; or what an option says else, see `isOfFile`.
    public var file: String
    /// Whether that is a file.
    public var isOfFile = true
    /// Counted from 1; nil when the whole file is meant.
    public var line: Int?
    /// A sentence with its full stop. Never holds a password or a key.
    public var message: String

    public init(severity: Severity = .error, file: String, line: Int? = nil, message: String) {
        self.severity = severity
        self.file = file
        self.line = line
        self.message = message
    }

    /// One line for the log, without its severity: `users:3: the user anna stands in line 1 already.`
    public var description: String {
        "\(option.map { "\($0) " } ?? "")\(file)\(line.map { ":\($0)" } ?? ""): \(message)"
    }
}

/// Why a file of users, rules or keys cannot be used: everything that is wrong with it, in the order of its lines.
public struct SecurityFileError: Error, Sendable, Equatable, CustomStringConvertible {
    public let problems: [SecurityFileProblem]

    public init(_ problems: [SecurityFileProblem]) { self.problems = problems }

    public init(file: String, message: String) { self.init([SecurityFileProblem(file: file, message: message)]) }

    public var description: String { problems.map(\.description).joined(separator: "\n") }
}

/// Reads a file of users, rules or keys from the disk.
enum SecurityFileReader {
    static func contents(of path: String) throws(SecurityFileError) -> [UInt8] {
        do throws(WholeFile.Failure) {
            return try WholeFile.bytes(of: path, bytesMax: Limits.fileBytesMax)
        } catch {
            switch error {
            case .isDirectory: throw SecurityFileError(file: path, message: "is a directory.")
            case .isTooLarge: throw SecurityFileError(file: path, message: "is larger than \(Limits.fileBytesMax >> 20) MiB.")
            case .refused(let error):
                let what = error.operation.description == "open" ? "cannot be opened" : "cannot be read"
                throw SecurityFileError(file: path, message: "\(what): \(error.reason).")
            }
        }
    }
}

/// The lines of a file of users, rules or keys that say something: no comment, nothing empty.
struct SecurityFileLines {
    struct Line {
        /// Counted from 1.
        let number: Int
        /// Without blanks at its end.
        let text: [UInt8]
    }

    let file: String
    private(set) var lines: [Line] = []
    private(set) var problems: [SecurityFileProblem] = []

    init(_ bytes: [UInt8], file: String) {
        self.file = file
        var bytes = bytes
        if ByteOrderMark.drop(from: &bytes) {
            report(
                "the file begins with a byte order mark; mosquitto would not read its first line.", line: 1, severity: .warning)
        }
        let parts = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        for (index, part) in parts.enumerated() {
            let text = part.trimmedEnd
            guard let first = text.first, first != UInt8(ascii: "#") else { continue }
            if text.count > Limits.lineBytesMax {
                report("the line is longer than \(Limits.lineBytesMax) bytes.", line: index + 1)
            } else if text.contains(0) {
                report("the line holds a zero byte.", line: index + 1)
            } else {
                lines.append(Line(number: index + 1, text: Array(text)))
            }
        }
    }

    mutating func report(_ message: String, line: Int, severity: SecurityFileProblem.Severity = .error) {
        guard problems.count < Limits.problemsMax else { return }
        problems.append(SecurityFileProblem(severity: severity, file: file, line: line, message: message))
    }

    /// Throws when anything reported is an error.
    func check() throws(SecurityFileError) {
        if problems.contains(where: { $0.severity == .error }) {
            throw SecurityFileError(problems.filter { $0.severity == .error })
        }
    }
}

extension Collection<UInt8> where Self: BidirectionalCollection, SubSequence: BidirectionalCollection {
    /// Without the blanks at its end.
    var trimmedEnd: SubSequence {
        var end = endIndex
        while end > startIndex, self[index(before: end)].isBlank { end = index(before: end) }
        return self[startIndex..<end]
    }

    /// Without the blanks at both ends.
    var trimmedBlanks: SubSequence {
        let start = firstIndex { !$0.isBlank } ?? endIndex
        return self[start...].trimmedEnd[...]
    }
}

extension UInt8 {
    /// What C's `isspace` takes for a blank.
    var isBlank: Bool { self == UInt8(ascii: " ") || (9...13).contains(self) }
}

/// mosquitto's `acl_file`.
///
///     topic read public/#            # before any user: for clients without a user name
///     user anna
///     topic readwrite home/anna/#
///     topic deny home/anna/safe
///     pattern write devices/%c/#     # for everybody, wherever it stands
///
/// Own extensions: `topic write,qos<=1,retain=no sensors/#` lets only such messages be published, `topic
/// read,from=10.0.0.0/8 plant/#` holds for clients from there alone, and `%{client_attrs.NAME}` stands for an attribute
/// in a pattern as `%c` and `%u` do.
///
/// Words are parted by spaces; without a word for the access it is readwrite, and a filter with spaces needs the word.
/// There are no comments at the end of a line: what looks like one above belongs to the filter.
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

    /// The rules that `martlet_default_rule` gives, each as behind the word `pattern`.
    ///
    /// - Throws: for the first that is none, in words that need no place.
    public static func defaultRules(_ texts: [String]) throws(SecurityFileError) -> [AccessRule] {
        var rules: [AccessRule] = []
        for text in texts {
            var reading = Reading(lines: SecurityFileLines(Array("pattern \(text)".utf8), file: text))
            reading.run()
            if let problem = reading.lines.problems.first(where: { $0.severity == .error }) {
                throw SecurityFileError(file: text, message: problem.message)
            }
            rules += reading.patterns.map { AccessRule($0.permission, $0.filter, networks: $0.networks) }
        }
        return rules
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
                case "user": parseUser(rest, at: line.number)
                case "topic": parseRule(rest, isPattern: false, at: line.number)
                case "pattern": parseRule(rest, isPattern: true, at: line.number)
                case "": continue
                case let other: lines.report(Self.complaint(about: other), line: line.number)
                }
            }
        }

        private mutating func parseUser(_ text: ArraySlice<UInt8>, at line: Int) {
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

        private mutating func parseRule(_ text: ArraySlice<UInt8>, isPattern: Bool, at line: Int) {
            let keyword = isPattern ? "pattern" : "topic"
            var (word, rest) = Self.firstWord(of: text)
            guard !word.isEmpty else {
                lines.report("\"\(keyword)\" lacks its topic filter.", line: line)
                return
            }
            var type = AccessType()
            rest = rest.trimmedBlanks
            if !rest.isEmpty {
                do throws(AccessType.Complaint) {
                    type = try AccessType(String(decoding: word, as: UTF8.self))
                } catch {
                    return lines.report(error.description, line: line)
                }
                word = rest
            }
            guard word.count <= 65_535, EncodedString(word) != nil, let filter = AccessFilter(word, isPattern: isPattern) else {
                lines.report(
                    "\"\(String(decoding: word, as: UTF8.self))\" is not a topic filter: + and # must be a whole level, and # the last one.",
                    line: line)
                return
            }
            if !isPattern, String(decoding: word, as: UTF8.self).holds("%{client_attrs.") {
                lines.report(
                    "%{client_attrs.NAME} is replaced in lines that begin with pattern only; here it is taken literally.",
                    line: line,
                    severity: .warning)
            }
            add(
                AccessRule(type.permission, filter, line: line, networks: type.networks), isPattern: isPattern, at: line)
        }

        private mutating func add(_ rule: AccessRule, isPattern: Bool, at line: Int) {
            if isPattern {
                if rule.filter.hasPartialSubstitution {
                    lines.report(
                        rule.filter.mentionsAttributes
                            ? "%{client_attrs.NAME} is replaced only where it is written so and is a whole level; here it is taken literally."
                            : "%c and %u are replaced only where they are a whole level; here they are taken literally.",
                        line: line, severity: .warning)
                } else if !rule.filter.isPersonal, rule.networks.isEmpty {
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

    }
}

/// The access type of a line, with conditions behind commas: `write,qos<=1,retain=no,from=10.0.0.0/8`.
struct AccessType {
    /// What is wrong with one, as a sentence.
    struct Complaint: Error, CustomStringConvertible {
        let description: String

        init(_ description: String) { self.description = description }
    }

    /// `readwrite`, where a line says nothing of it.
    private(set) var permission: AccessPermission = [.read, .write]
    /// The networks of which the client comes from one; empty for anywhere.
    private(set) var networks: [AddressRange] = []
    private var qos: Set<QoS> = [.atMostOnce, .atLeastOnce, .exactlyOnce]
    private var retains: Set<Bool> = [true, false]

    init() {}

    init(_ text: String) throws(Complaint) {
        let words = text.split(separator: ",", omittingEmptySubsequences: false)
        guard let type = words.first, let named = Self.permissions[String(type)] else {
            throw Complaint(
                "\"\(text)\" is not an access type; expected read, write, readwrite or deny before a filter that holds a space.")
        }
        permission = named
        var isOfMessages = false
        for word in words.dropFirst() {
            if word.hasPrefix("from=") {
                try addNetwork(String(word.dropFirst(5)))
            } else {
                try narrow(word)
                isOfMessages = true
            }
        }
        guard isOfMessages else { return }
        guard named.contains(.write) else {
            throw Complaint(
                "\"\(text)\": qos and retain are for what is published; write them behind write or readwrite.")
        }
        guard !qos.isEmpty, !retains.isEmpty else { throw Complaint("no message can meet the conditions of \"\(text)\".") }
        guard qos.count < 3 || retains.count < 2 else { return }
        permission.remove(.write)
        permission.formUnion(.messages(qos: Array(qos), retain: Array(retains)))
    }

    private mutating func narrow(_ word: Substring) throws(Complaint) {
        switch word {
        case "qos=0", "qos<=0": qos.formIntersection([.atMostOnce])
        case "qos=1": qos.formIntersection([.atLeastOnce])
        case "qos=2": qos.formIntersection([.exactlyOnce])
        case "qos<=1": qos.formIntersection([.atMostOnce, .atLeastOnce])
        case "qos<=2": break
        case "retain=yes": retains.formIntersection([true])
        case "retain=no": retains.formIntersection([false])
        default:
            throw Complaint(
                "\"\(word)\" is not a condition; expected qos=0, qos=1, qos=2, qos<=1, retain=yes, retain=no or from=ADDRESS, such as "
                    + "write,qos<=1,retain=no,from=10.0.0.0/8.")
        }
    }

    private mutating func addNetwork(_ text: String) throws(Complaint) {
        guard let network = AddressRange(text) else {
            throw Complaint(
                "\"from=\(text)\": this is no address and no network; write from=192.0.2.7, from=10.0.0.0/8 or from=2001:db8::/32.")
        }
        networks.append(network)
    }

    private static let permissions: [String: AccessPermission] = [
        "read": .read, "write": .write, "readwrite": [.read, .write], "deny": .deny,
    ]
}

/// A line `user:secret` of a file of passwords or of SCRAM entries.
struct CredentialLine {
    let user: ArraySlice<UInt8>
    let secret: ArraySlice<UInt8>

    /// Parts a line at its first colon, and takes blanks from around both parts; nil for one without a colon.
    init?(_ text: [UInt8]) {
        guard text.first != UInt8(ascii: "#"), let colon = text.firstIndex(of: UInt8(ascii: ":")) else { return nil }
        user = text[..<colon].trimmedBlanks
        secret = text[(colon + 1)...].trimmedBlanks
    }
}

extension Limits {
    /// Bytes of a file; a larger one is an error.
    static let fileBytesMax = 64 << 20

    /// Bytes of a line: a name of 65,535 bytes, and a hash. A longer one is an error.
    static let lineBytesMax = 80_000

    /// Problems of a file that are told; the others are not. Bytes: `lineBytesMax` each at most.
    static let problemsMax = 50

    /// Networks of a list of addresses; more are an error. Bytes: 100 each.
    static let networksMax = 1_000_000

    /// Bytes of a pre-shared key: what OpenSSL takes at most.
    static let preSharedKeyBytesMax = 512
}
