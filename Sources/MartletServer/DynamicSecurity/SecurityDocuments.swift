import BrokerCore
import BrokerModel
import Configuration
import Glibc
import MQTTCodec
import Platform
import Security
import ServerLoops

extension SecurityConfiguration {
    /// The file of `plugin …/mosquitto_dynamic_security.so`; nil without that.
    var dynamicSecurityFile: String? { dynamicSecurity?.options["config_file"] }

    /// `plugin_opt_password_init_file`: where the first administrator's password stands.
    var firstPasswordFile: String? { dynamicSecurity?.options["password_init_file"] }

    private var dynamicSecurity: PluginConfiguration? { plugins.first { $0.plugin == .dynamicSecurity } }
}

/// The files of dynamic security that the configuration names, each opened once and open until the broker ends. Belongs
/// to the control thread.
final class SecurityDocuments {
    private(set) var documents: [String: SecurityDocument] = [:]
    private let log: Log

    init(log: Log) { self.log = log }

    /// What the loops ask, by file.
    var directories: [String: SecurityDirectory] { documents.mapValues(\.directory) }

    /// The document that clients of a listener have to do with; nil where there is none.
    func document(of security: SecurityConfiguration) -> SecurityDocument? {
        security.dynamicSecurityFile.flatMap { documents[$0] }
    }

    /// Opens what is not open yet. A file that is not there is made, with an administrator. Throws all that is wrong
    /// with any of them.
    func open(_ configuration: BrokerConfiguration) throws(SecurityFilesError) {
        var problems: [SecurityFileProblem] = []
        // A file that cannot be opened is told of once, and not for each listener.
        var tried: Set<String> = []
        for security in configuration.openListeners.map(\.security) {
            guard let path = security.dynamicSecurityFile, documents[path] == nil, tried.insert(path).inserted else { continue }
            do throws(SecurityFileError) {
                if access(path, F_OK) != 0, errno == ENOENT { try makeFile(at: path, security, configuration.general) }
                documents[path] = try SecurityDocument(path: path)
            } catch {
                problems += error.problems.map { Self.named($0, path) }
            }
        }
        if !problems.isEmpty { throw SecurityFilesError(problems: problems) }
    }

    /// Warns of files to which changes cannot be saved, by the user that the broker runs as, and of those that somebody
    /// else has written.
    func warn() {
        for (path, document) in documents.sorted(by: { $0.key < $1.key }) {
            if let warning = Self.warning(onSaving: path) {
                log.write(.warning, "Warning: plugin_opt_config_file \(path): \(warning)")
            }
            guard document.isWrittenByOthers else { continue }
            log.write(
                .warning,
                "Warning: plugin_opt_config_file \(path): the file was changed by another program, and a running broker does not read it again. "
                    + "Restart the broker to use it; the next command that changes something overwrites it."
            )
        }
    }

    /// Why nothing can be saved to a file, with what to type; nil when it can.
    static func warning(onSaving path: String) -> String? {
        SecurityDocument.obstacle(toSaving: path).map {
            "dynamic security cannot be changed, because no change can be saved: \($0.advice())."
        }
    }

    /// What keeps `open` from doing so. Makes nothing.
    static func problems(opening configuration: BrokerConfiguration) -> [SecurityFileProblem] {
        var problems: [SecurityFileProblem] = []
        var seen: Set<String> = []
        for security in configuration.openListeners.map(\.security) {
            guard let path = security.dynamicSecurityFile, seen.insert(path).inserted else { continue }
            do throws(SecurityFileError) {
                if access(path, F_OK) != 0, errno == ENOENT {
                    _ = try FirstPasswords(security)
                    if let obstacle = FileAccess.obstacle(toWriting: path) {
                        throw SecurityFileError(file: path, message: "cannot be created: \(obstacle.advice()).")
                    }
                } else {
                    _ = try SecurityDocument.model(readingFrom: path)
                }
            } catch {
                problems += error.problems.map { named($0, path) }
            }
        }
        return problems
    }

    /// Of the file itself, the option that names it says where to look.
    private static func named(_ problem: SecurityFileProblem, _ path: String) -> SecurityFileProblem {
        var problem = problem
        problem.option = problem.file == path ? "plugin_opt_config_file" : "plugin_opt_password_init_file"
        return problem
    }

    private func makeFile(
        at path: String, _ security: SecurityConfiguration, _ general: GeneralConfiguration
    ) throws(SecurityFileError) {
        log.write(.information, "Dynamic security plugin config not found, generating a default config.")
        let passwords = try FirstPasswords(security)
        log.write(.information, "  \(passwords.origin.sentence(path))")
        let hash = Self.hashing(general)
        guard hash(passwords.clients.admin) != nil else {
            throw SecurityFileError(file: path, message: "cannot be created: there is no memory to hash its first password.")
        }
        let owner = Privileges.successor(named: general.userName)
        // What somebody has put there meanwhile is not followed.
        func give(_ path: String) { if let owner { _ = lchown(path, owner.user, owner.group) } }
        do throws(FileReplacement.Failure) {
            if let list = passwords.list {
                try FileReplacement.write(Array(list.utf8), to: "\(path).pw")
                give("\(path).pw")
            }
            try SecurityDocument.save(.first(passwords.clients, hash: hash), to: path)
            give(path)
        } catch {
            throw SecurityFileError(file: path, message: "\(error).")
        }
    }

    /// How passwords are hashed: mosquitto 2.0 does not know Argon2.
    static func hashing(_ general: GeneralConfiguration) -> @Sendable (String) -> StoredPassword? {
        let scheme: PasswordScheme = general.compatibility == .version2_0 ? .sha512PBKDF2 : .argon2id
        return { password in (try? scheme.entry(for: Array(password.utf8))).flatMap { StoredPassword($0) } }
    }
}

/// The passwords that a new file begins with: from a file, from the environment, or made up.
struct FirstPasswords {
    enum Origin {
        case file(String)
        case environment
        case chance

        func sentence(_ path: String) -> String {
            switch self {
            case .file(let file): "Using admin password from file '\(file)'"
            case .environment: "Using admin password from MOSQUITTO_DYNSEC_PASSWORD environment variable"
            case .chance: "Generated passwords are at \(path).pw"
            }
        }
    }

    let origin: Origin
    let clients: SecurityModel.FirstClients

    /// The list that is written down for the operator; nil where they know it.
    var list: String? {
        guard case .chance = origin else { return nil }
        return "admin \(clients.admin)\n" + (clients.demonstration.map { "democlient \($0)\n" } ?? "")
    }

    init(_ security: SecurityConfiguration) throws(SecurityFileError) {
        if let file = security.firstPasswordFile {
            (origin, clients) = (.file(file), .init(admin: try Self.password(in: file), demonstration: nil))
        } else if let value = getenv("MOSQUITTO_DYNSEC_PASSWORD") {
            let password = String(cString: value)
            guard password.utf8.count >= Limits.firstPasswordBytesMin else {
                throw SecurityFileError(
                    file: security.dynamicSecurityFile ?? "",
                    message:
                        "is not created: MOSQUITTO_DYNSEC_PASSWORD must be at least \(Limits.firstPasswordBytesMin) characters.")
            }
            (origin, clients) = (.environment, .init(admin: password, demonstration: nil))
        } else {
            (origin, clients) = (.chance, .init(admin: Self.madeUp(), demonstration: Self.madeUp()))
        }
    }

    /// The first line, without blanks at its end.
    private static func password(in file: String) throws(SecurityFileError) -> String {
        let bytes: [UInt8]
        do throws(WholeFile.Failure) {
            bytes = try WholeFile.text(of: file, bytesMax: Limits.firstPasswordFileBytesMax)
        } catch {
            let why =
                FileAdvice.obstacle(toReading: file).map { $0.advice() }
                ?? "it is larger than \(Limits.firstPasswordFileBytesMax) bytes"
            throw SecurityFileError(file: file, message: "holds no first password: \(why).")
        }
        let line = bytes.prefix { $0 != UInt8(ascii: "\n") }
        let end = line.lastIndex { ![9, 11, 12, 13, 32].contains($0) }.map { $0 + 1 } ?? line.startIndex
        guard end > line.startIndex, let password = String(validating: line[..<end], as: UTF8.self) else {
            throw SecurityFileError(file: file, message: "holds no first password: its first line is empty, or is not UTF-8.")
        }
        return password
    }

    /// Letters and digits from the kernel's random numbers.
    private static func madeUp() -> String {
        let characters = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
        var random = KernelRandomNumbers()
        return String(
            (0..<Limits.firstPasswordCharacters).map { _ in characters[Int.random(in: 0..<characters.count, using: &random)] })
    }
}

extension Limits {
    /// Bytes of the file with the first password; a larger one is none.
    static let firstPasswordFileBytesMax = 1024

    /// Bytes that the first password from the environment has at least.
    static let firstPasswordBytesMin = 12

    /// Characters of a first password that is made up: 119 bits of chance.
    static let firstPasswordCharacters = 20
}
