import Glibc
import Platform

/// Reads secrets that stand in files of their own: `remote_password file:/run/secrets/site`.
///
/// So a configuration file can be shown, copied and kept under version control, and containers and systemd can hand out
/// what is secret.
struct SecretFiles: Sendable {
    /// Why a secret cannot be used.
    struct Refusal: Error, Equatable {
        /// A sentence, without the secret.
        let message: String
    }

    /// What a value begins with that names a file.
    static let prefix = "file:"

    let files: any FileSource

    /// The file that a value names; nil for a value that is the secret itself.
    static func path(in value: String) -> String? {
        value.hasPrefix(prefix) ? String(value.dropFirst(prefix.count)).trimmed : nil
    }

    /// The secret that `value` stands for: the value itself, or what is in the file that it names.
    func secret(of value: String) throws(Refusal) -> String {
        guard let path = Self.path(in: value) else { return value }
        guard !path.isEmpty else {
            throw Refusal(
                message: "no path follows \"\(Self.prefix)\"; expected \(Self.prefix)PATH, such as file:/run/secrets/password.")
        }
        return try contents(ofFile: path)
    }

    /// The text of a file, without the line break at its end.
    func contents(ofFile path: String) throws(Refusal) -> String {
        var bytes: [UInt8]
        do throws(FileFailure) {
            bytes = try files.contents(ofFile: path, bytesMax: Limits.valueBytesMax)
        } catch {
            throw Refusal(message: "the file \(error.path) with the secret cannot be read: \(error.reason).")
        }
        if bytes.last == UInt8(ascii: "\n") { bytes.removeLast() }
        if bytes.last == UInt8(ascii: "\r") { bytes.removeLast() }
        guard !bytes.isEmpty else { throw Refusal(message: "the file \(path) with the secret is empty.") }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw Refusal(message: "the file \(path) with the secret is not valid UTF-8.")
        }
        guard !bytes.contains(UInt8(ascii: "\n")) else {
            throw Refusal(message: "the file \(path) with the secret has more than one line; the secret stands there alone.")
        }
        guard LineReader.complaint(about: text) == nil else {
            throw Refusal(message: "the file \(path) with the secret holds a control character.")
        }
        return text
    }
}

extension ConfigurationOption {
    /// Whether all that an option says is for nobody's eyes: it is masked wherever the configuration is shown, and may
    /// stand in a file of its own.
    public static func isSecret(_ name: String) -> Bool {
        ["bridge_psk", "martlet_cluster_token"].contains(name) || (name.holds("password") && !name.hasSuffix("_file"))
            || (name.holds("secret") && !name.hasSuffix("_file"))
    }

    /// What of an option's value may be shown: nothing of a secret, and addresses without what stands in them of
    /// logins.
    public static func shown(_ value: String, of name: String) -> String {
        if isSecret(name) { return AddressMask.mask }
        let isPath = name.hasSuffix("_uri")
        return isPath || value.holds("://") || name == "martlet_cluster_servers"
            ? AddressMask.masking(value, isPath: isPath) : value
    }
}

/// Hides what addresses hold that is nobody's business: the login before the host, and the query, which may be a key.
///
///     nats://user:password@a:4222,nats://b  ─►  nats://***@a:4222,nats://b
///     https://example.org/login?key=secret  ─►  https://example.org/login?***
///
/// What cannot be told from a login is hidden too.
enum AddressMask {
    /// Stands for what is not shown.
    static let mask = "***"

    /// - Parameters:
    ///   - text: addresses with blanks or commas between them.
    ///   - isPath: whether it is what stands behind the host alone.
    static func masking(_ text: String, isPath: Bool = false) -> String {
        text.split(separator: " ", omittingEmptySubsequences: false).map { masking(word: $0, isPath: isPath) }.joined(
            separator: " ")
    }

    /// Whether a part of it stands for what was hidden.
    static func isMasked(_ text: String) -> Bool {
        text == mask || text.words.contains { $0.holds("\(mask)@") || $0.hasSuffix("?\(mask)") }
    }

    private static func masking(word: Substring, isPath: Bool) -> String {
        let end = word.firstIndex { $0 == "?" || $0 == "#" } ?? word.endIndex
        let query = end == word.endIndex ? "" : "\(word[end])\(mask)"
        if isPath { return word[..<end] + query }
        let addresses = word[..<end].split(separator: ",", omittingEmptySubsequences: false).map { address -> String in
            guard let at = address.lastIndex(of: "@") else { return String(address) }
            let text = String(address)
            let scheme = text.firstPlace(of: "://").map { text[..<$0.upperBound] } ?? ""
            return "\(scheme)\(mask)\(address[at...])"
        }
        return addresses.joined(separator: ",") + query
    }
}

/// A file that a secret was read from.
public struct SecretFile: Sendable, Equatable {
    /// The option, or the variable of the environment, that names it.
    public let option: String
    public let path: String
}

/// The files of this machine.
public struct DiskFiles: FileSource {
    public init() {}

    public func contents(ofFile path: String, bytesMax: Int) throws(FileFailure) -> [UInt8] {
        do throws(WholeFile.Failure) {
            return try WholeFile.bytes(of: path, bytesMax: bytesMax)
        } catch {
            switch error {
            case .isDirectory:
                throw FileFailure(operation: "read", path: FullPath.of(path), errorNumber: EISDIR, reason: "Is a directory")
            case .isTooLarge:
                throw FileFailure(
                    operation: "read", path: FullPath.of(path), errorNumber: 0, reason: "It is larger than \(bytesMax) bytes")
            case .refused(let error):
                throw FileFailure(
                    operation: error.operation.description, path: FullPath.of(path), errorNumber: error.errno, reason: error.reason)
            }
        }
    }

    public func names(inDirectory path: String) throws(FileFailure) -> [String] {
        guard let names = SystemCall.names(inDirectory: path) else { throw failure("opendir", path) }
        return names
    }

    private func failure(_ operation: String, _ path: String) -> FileFailure {
        let number = errno
        let reason = strerror(number).map { String(cString: $0) } ?? "error \(number)"
        return FileFailure(operation: operation, path: FullPath.of(path), errorNumber: number, reason: reason)
    }
}

/// What the reader made of a configuration file.
///
/// `configuration` holds whatever could be understood, which is good enough to be shown or compared; the broker starts
/// with it only when `hasErrors` is false.
public struct ConfigurationResult: Sendable, Equatable {
    public var configuration: BrokerConfiguration
    /// In the order of the lines; what concerns a whole section follows at the end.
    public var diagnostics: [Diagnostic]
    /// Where its lines stand.
    public var locations: ConfigurationLocations

    /// A configuration, what there is to say about it, and where its lines stand, if it comes from a file.
    public init(
        configuration: BrokerConfiguration, diagnostics: [Diagnostic], locations: ConfigurationLocations = ConfigurationLocations()
    ) {
        self.configuration = configuration
        self.diagnostics = diagnostics
        self.locations = locations
    }

    public var hasErrors: Bool {
        diagnostics.contains { $0.severity == .error }
    }
}

/// Reads configuration files in mosquitto's format, with Martlet's own options beside mosquitto's.
///
/// Nothing is read but what `files` gives, and nothing happens but what the result says: the reader opens no port and
/// creates no file. A value; every `read` starts afresh.
public struct ConfigurationReader: Sendable {
    private let files: any FileSource
    private let environment: [String: String]

    /// `environment`: what `MOSQUITTO_PERSISTENCE_LOCATION` is looked up in and, with
    /// `martlet_expand_environment true`, every `${NAME}`.
    public init(files: any FileSource, environment: [String: String]) {
        self.files = files
        self.environment = environment
    }

    /// Reads the main file at `path` and what it includes. `ports` are those of the command line: they count only when
    /// the file opens no listener, as with mosquitto. Never fails: what is wrong stands in the result's diagnostics,
    /// all of it, up to `Limits.diagnosticsMax`.
    public func read(path: String, ports: [UInt16] = []) -> ConfigurationResult {
        var reading = ConfigurationReading(files: files, environment: environment, path: path)
        reading.readMainFile()
        return reading.finish(ports: ports)
    }
}

/// Where configuration files come from: the disk, or a dictionary in a test.
public protocol FileSource: Sendable {
    /// The bytes of the file at `path`. A file of more than `bytesMax` bytes is refused.
    func contents(ofFile path: String, bytesMax: Int) throws(FileFailure) -> [UInt8]

    /// The names, without the directory, of everything in the directory at `path`, in any order.
    func names(inDirectory path: String) throws(FileFailure) -> [String]
}

/// A file or directory could not be read.
public struct FileFailure: Error, Sendable, Equatable {
    /// The system call, or what was attempted.
    public var operation: String
    /// Of the file or directory, whole where it is one of this machine.
    public var path: String
    /// errno, or 0 when the system is not to blame.
    public var errorNumber: Int32
    /// The reason in words, without a full stop.
    public var reason: String

    public init(operation: String, path: String, errorNumber: Int32, reason: String) {
        self.operation = operation
        self.path = path
        self.errorNumber = errorNumber
        self.reason = reason
    }
}

/// The user that the environment gives the broker, so that a container needs no file to begin with.
///
///     MARTLET_USER=anna
///     MARTLET_PASSWORD_FILE=/run/secrets/password        or MARTLET_PASSWORD=…
///
/// There is such a user at every listener, and an administrator over HTTP; whoever has no login is refused, unless a
/// listener has `listener_allow_anonymous true`. A user of the same name in a `password_file` comes first.
public struct FirstUser: Sendable, Equatable {
    public let name: String
    public let password: String
    /// Where the password stands; nil for in the environment.
    public var passwordFile: String?

    static let nameVariable = "MARTLET_USER"
    static let passwordVariable = "MARTLET_PASSWORD"
    static let passwordFileVariable = "MARTLET_PASSWORD_FILE"

    public init(name: String, password: String) { (self.name, self.password) = (name, password) }

    /// The one of the environment; nil for none. Throws what is wrong with it. A variable without text counts as not
    /// given: compose files write them so.
    public init?(environment: [String: String], files: any FileSource) throws(FirstUserRefusal) {
        func given(_ name: String) -> String? { environment[name].flatMap { $0.isEmpty ? nil : $0 } }
        let passwords = [Self.passwordVariable, Self.passwordFileVariable].filter { given($0) != nil }
        guard let name = given(Self.nameVariable) else {
            guard let orphan = passwords.first else { return nil }
            throw FirstUserRefusal(variable: orphan, message: "it is the password of \(Self.nameVariable), which is not set.")
        }
        guard LineReader.complaint(about: name) == nil, name == name.trimmed, !name.contains(":"), !name.hasPrefix("#"),
            name.utf8.count <= Limits.valueBytesMax
        else {
            throw FirstUserRefusal(
                variable: Self.nameVariable,
                message: "a user's name holds no colon and no control character, begins with no #, and has no blanks at its ends.")
        }
        guard let variable = passwords.first else {
            throw FirstUserRefusal(
                variable: Self.nameVariable,
                message:
                    "\(name.quoted) needs a password: set \(Self.passwordFileVariable) to a file that holds it, or \(Self.passwordVariable)."
            )
        }
        guard passwords.count == 1 else {
            throw FirstUserRefusal(
                variable: Self.passwordVariable,
                message: "\(Self.passwordFileVariable) is set too; one of the two gives the password.")
        }
        self.name = name
        guard variable == Self.passwordFileVariable else {
            password = given(variable) ?? ""
            return
        }
        passwordFile = given(variable)
        do throws(SecretFiles.Refusal) {
            password = try SecretFiles(files: files).contents(ofFile: given(variable) ?? "")
        } catch {
            throw FirstUserRefusal(variable: variable, message: error.message)
        }
    }
}

/// The reason for which the user that the environment names is refused.
public struct FirstUserRefusal: Error, Sendable, Equatable {
    let variable: String
    let message: String

    /// As the log and the terminal show it.
    public var diagnostic: Diagnostic { Diagnostic(severity: .error, file: "", option: variable, message: message) }
}

extension BrokerConfiguration {
    /// Gives every listener the user, and asks for a login on all.
    public mutating func add(_ user: FirstUser) {
        record(user)
        for index in listeners.indices { listeners[index].security.add(user, isOpened: false) }
    }

    /// Takes the user up where listeners are not concerned.
    mutating func record(_ user: FirstUser) {
        if let path = user.passwordFile {
            general.secretFiles.append(SecretFile(option: FirstUser.passwordFileVariable, path: path))
        }
        security.add(user, isOpened: false)
        if administration.users[user.name] == nil { administration.users[user.name] = .admin }
    }
}

extension SecurityConfiguration {
    /// - Parameter isOpened: whether lines of the listener's own say who needs no login.
    mutating func add(_ user: FirstUser, isOpened: Bool) {
        firstUser = user
        if !isOpened { allowsAnonymous = false }
    }
}
