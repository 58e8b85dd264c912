import ArgumentParsing
import Glibc
import MartletServer
import Platform
public import Security

/// `martlet passwd`: edits files of users, with mosquitto_passwd's options.
struct PasswordCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "passwd",
        abstract: "Edit a file of users and their hashed passwords.",
        usage: """
            martlet passwd [-H hash] [-I iterations] [-c] FILE USER
            martlet passwd [-H hash] [-I iterations] [-c] -b FILE USER PASSWORD
            martlet passwd -D FILE USER
            martlet passwd [-H hash] [-I iterations] -U FILE
            """,
        discussion: """
            Asks for the password twice, without showing it; from a pipe it is read as one line. The options are mosquitto_passwd's, and so are \
            the files, for password_file. With -H scram-sha-256 the file is one for martlet_scram_file. The broker reads it again on SIGHUP.
            """)

    @Flag(name: .short, help: "Take the password from the command line, where other users of the machine can see it.")
    var batch = false

    @Flag(name: .short, help: "Create a new file, in place of one that is there.")
    var create = false

    @Flag(name: [.customShort("D")], help: "Delete the user.")
    var delete = false

    @Flag(name: [.customShort("U")], help: "Hash the plain-text passwords in the file.")
    var upgrade = false

    @Option(name: [.customShort("H")], help: "How to hash: argon2id, sha512-pbkdf2, sha512 (weak), scram-sha-256.")
    var hash = PasswordScheme.argon2id

    @Option(name: [.customShort("I")], help: "The number of iterations. (default: the hash's own)")
    var iterations: Int?

    @Argument(help: "The file.", completion: .file)
    var file: String

    @Argument(help: "The user's name.")
    var user: String?

    @Argument(help: "The password, with -b.")
    var password: String?

    func validate() throws {
        guard !(create && delete) else { throw ValidationError("-c and -D contradict each other; give one of them.") }
        if upgrade {
            guard !create, !delete, !batch else { throw ValidationError("-U cannot be combined with -b, -c or -D.") }
            guard user == nil else { throw ValidationError("-U takes no user: it hashes every password in the file.") }
        } else {
            guard user != nil else { throw ValidationError("The user's name is missing.") }
        }
        guard !(batch && delete) else { throw ValidationError("-b and -D contradict each other; give one of them.") }
        if batch, password == nil { throw ValidationError("With -b the password is the last argument, and it is missing.") }
        if !batch, password != nil { throw ValidationError("A password on the command line needs -b.") }
        if let iterations {
            guard let range = hash.iterationsRange else { throw ValidationError("-I has no meaning for \(hash.rawValue).") }
            guard range.contains(iterations) else {
                throw ValidationError(
                    "-I takes \(range.lowerBound) to \(range.upperBound) for \(hash.rawValue), not \(iterations).")
            }
        }
    }

    func run() throws {
        var edited = try open()
        // Said when it is true.
        var told: String?
        if upgrade {
            told = try upgradePasswords(&edited)
        } else if let user {
            if delete {
                guard edited.remove(user) else { throw failure("there is no user \(user) in \(FileAdvice.fullPath(of: file)).") }
            } else {
                told = try set(user, in: &edited)
            }
        }
        do throws(FileReplacement.Failure) {
            try FileReplacement.write(edited.bytes, to: file)
        } catch {
            throw failure(FileAdvice.writing(file).map { "\($0)." } ?? "\(FileAdvice.fullPath(of: file)): \(error).")
        }
        if let told { Console.complain(told) }
        sayHowItCounts()
        sayWhoCannotRead()
    }

    /// A broker that runs has the old file in memory.
    private func sayHowItCounts() {
        let unit = ServiceUnit.installed().first.map { String($0.name.dropLast(".service".count)) }
        let command = unit.map { "systemctl reload \($0)" } ?? "martlet ctl reload (or send it SIGHUP)"
        Console.complain("A broker that runs takes the file over at its next reload: \(command)")
    }

    /// A broker does not run as whom this command does: whether it will be able to read the file is better known now than at its reload.
    private func sayWhoCannotRead() {
        for name in ["martlet", "mosquitto"] {
            guard let reader = ReadRight(userNamed: name) else { continue }
            if let obstacle = reader.obstacle(to: file) {
                Console.complain(
                    "Note: a broker that runs as the user \(name) cannot read \(file). \(reader.remedy(for: obstacle))")
            }
            return
        }
    }

    private func open() throws -> CredentialFile {
        if create { return CredentialFile() }
        do throws(SecurityFileError) {
            return try CredentialFile(path: file)
        } catch {
            guard let advice = FileAdvice.reading(file) else { throw failure("\(error)") }
            let isMissing = access(file, F_OK) != 0 && errno == ENOENT
            let create = isMissing && !delete && !upgrade ? " To create it, give -c too." : ""
            throw failure("\(advice).\(create)")
        }
    }

    private func set(_ user: String, in edited: inout CredentialFile) throws -> String {
        let isKnown = edited.contains(user)
        let secret = try Array((password ?? PasswordPrompt.newPassword()).utf8)
        guard !secret.isEmpty else { throw failure("the password is empty; type one of 1 to 65535 bytes.") }
        guard secret.count <= 65_535 else { throw failure("the password is longer than 65535 bytes; choose a shorter one.") }
        let entry = try entry(for: secret)
        do throws(CredentialFile.NameComplaint) {
            try edited.set(user, to: entry)
        } catch {
            throw failure("the user's name \(Self.words(for: error)).")
        }
        return "\(isKnown ? "Updated" : "Added") user \(user) in \(file)."
    }

    private func upgradePasswords(_ edited: inout CredentialFile) throws -> String {
        let count = try edited.hashPlainPasswords { secret throws(ExitCode) in try entry(for: secret) }
        return "Hashed \(count) \(count == 1 ? "password" : "passwords") in \(file)."
    }

    private func entry(for secret: [UInt8]) throws(ExitCode) -> String {
        do throws(PasswordScheme.Refusal) {
            return try hash.entry(for: secret, iterations: iterations)
        } catch {
            switch error {
            case .noMemory: throw failure("there is no memory for the hash.")
            case .forbiddenCharacters:
                throw failure(
                    "the password holds what SASLprep (RFC 4013) forbids in one for SCRAM, such as a control character or a letter newer "
                        + "than Unicode 3.2, or is longer than 1024 bytes.")
            }
        }
    }

    private func failure(_ message: String) -> ExitCode {
        Console.complain("Error: \(message)")
        return ExitCode(1)
    }

    private static func words(for complaint: CredentialFile.NameComplaint) -> String {
        switch complaint {
        case .empty: "is empty"
        case .unwritable:
            "cannot be in a password file: it contains a colon or a line break, begins with #, or begins or ends with a space"
        case .tooLong: "is longer than 65535 bytes"
        }
    }
}

extension PasswordScheme: ExpressibleByArgument {}
