import BrokerCore
import BrokerModel
import Commands
import Configuration
import Glibc
import JSON
import MartletServer
import Platform
public import Security
import ServerLoops

/// The command `martlet`: with options only it runs the broker, as mosquitto does.
@main
struct MartletCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "martlet",
        abstract: "An MQTT broker: 3.1, 3.1.1 and 5.0, on every core.",
        discussion: """
            Without a configuration file it listens on the loopback addresses only, on port 1883, and allows anonymous clients.
            The configuration file has mosquitto's format.
            """,
        version: "martlet version \(ProductVersion.text)",
        subcommands: [
            Serve.self, ImportConfigCommand.self, PasswordCommand.self, StoreCommand.self, HealthCommand.self, ControlCommand.self,
            OptionsCommand.self,
            ClusterCommand.self, BenchCommand.self,
            PubCommand.self, SubCommand.self, RequestCommand.self, RespondCommand.self, MirrorCommand.self,
        ])

    @OptionGroup var options: ServeOptions

    /// Gives what follows a subcommand's name to that alone: the library would take it for options of the broker where
    /// the letters are the same, such as -c and -p.
    static func main() {
        CommandRun.run(self, Array(CommandLine.arguments.dropFirst()))
    }

    func run() throws { try ServerStart(options).run() }
}

/// `martlet options`: prints what a configuration file may say.
struct OptionsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "options",
        abstract: "Print the options of the configuration file, or those whose names contain a text.",
        discussion: "For example: martlet options queue")

    @Flag(help: "Print each as a line of JSON, also those that have no effect.")
    var json = false

    @Argument(help: ArgumentHelp("A part of the options' names.", valueName: "text"))
    var part: String?

    func run() throws {
        let found = ConfigurationOption.all.filter { option in part.map { option.name.holds($0.lowercased()) } ?? true }
        guard !found.isEmpty else {
            Console.complain("Error: no option's name contains \"\(part ?? "")\".")
            throw ExitCode(1)
        }
        if json {
            for option in found { Console.say(option.json) }
        } else {
            Console.say(found.filter { $0.status == .supported && $0.canonicalName == nil }.map(\.entry).joined(separator: "\n\n"))
        }
    }
}

extension ConfigurationOption {
    /// As a person reads it: what to write, what it does, and what counts without it.
    fileprivate var entry: String {
        var text = "\(name.hasSuffix("_") ? name + "NAME" : name) \(shape)"
        for line in summary.split(separator: "\n") { text += "\n    \(line)" }
        if let defaultText { text += "\n    Default: \(defaultText)" }
        return text
    }

    /// As a program reads it.
    fileprivate var json: String {
        var fields: [(String, String?)] = [
            ("name", name), ("section", section.rawValue), ("shape", shape), ("default", defaultText), ("summary", summary),
            ("stands_for", canonicalName),
        ]
        switch status {
        case .supported: fields.append(("status", "supported"))
        case .deprecated(let remark): fields += [("status", "deprecated"), ("remark", remark)]
        case .withoutEffect(let remark): fields += [("status", "without effect"), ("remark", remark)]
        case .unavailable: fields.append(("status", "unavailable"))
        }
        let texts = fields.compactMap { name, value in value.map { "\"\(name)\":\(Self.quoted($0))" } }
        return "{" + texts.joined(separator: ",") + ",\"reload\":\(isReloadable),\"repeatable\":\(isRepeatable)}"
    }

    private static func quoted(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"", "\\": quoted += "\\\(scalar)"
            case "\n": quoted += "\\n"
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }
}

/// One run of the command with its arguments: finds the subcommand that is meant, runs it, and ends the process with
/// what comes of it.
enum CommandRun {
    static func run(_ root: any ParsableCommand.Type, _ arguments: [String]) -> Never {
        answerShell(root, arguments)
        var path = CommandPath([root])
        var words = arguments
        if words.first == "help" {
            words.removeFirst()
            while let next = subcommand(of: path, &words) { path = path.down(to: next) }
            end(path, with: CleanExit.help)
        }
        // What follows a subcommand's name is its alone, also where the broker has options of the same letters, such as
        // -c and -p.
        while let next = subcommand(of: path, &words) { path = path.down(to: next) }
        if words == [description] { describe(path) }
        if let client = path.command as? any ClientSubcommand.Type {
            ClientCommandStart.run(client, words)
            end(path, with: CleanExit.help)
        }
        do {
            try start(path.command, words)
            exit(EXIT_SUCCESS)
        } catch {
            end(path, with: error)
        }
    }

    /// Makes the program describe a command as JSON, of which the manual is made.
    private static let description = "--help-json"
    private static let completionScript = "--generate-completion-script"

    /// With what the broker ends when its options or its configuration are wrong, as mosquitto does.
    private static let wrongStart: Int32 = 3

    private static func start(_ command: (some ParsableCommand).Type, _ words: [String]) throws {
        let configuration = command.configuration
        try command.parse(words, hasShortHelp: configuration.hasShortHelp, hasVersion: configuration.version != nil).run()
    }

    /// Takes the next word away, which names a subcommand, and leaves options that may stand before it behind it. nil
    /// when it is an option, or there are no subcommands. Ends the process for a name that is none.
    private static func subcommand(of path: CommandPath, _ words: inout [String]) -> (any ParsableCommand.Type)? {
        let subcommands = path.configuration.subcommands
        guard !subcommands.isEmpty else { return nil }
        let leading = path.configuration.optionsBeforeSubcommand?.countOfLeadingOptions(words) ?? 0
        guard leading < words.count, !words[leading].hasPrefix("-") else { return nil }
        let word = words[leading]
        guard let chosen = subcommands.first(where: { $0.configuration.commandName == word }) else { complain(path, of: word) }
        words.remove(at: leading)
        return chosen
    }

    private static func complain(_ path: CommandPath, of word: String) -> Never {
        let names = path.configuration.subcommands.map { $0.configuration.commandName } + ["help"]
        var text = "Error: There is no command '\(path.name) \(word)'."
        if let nearest = NearestName.nearest(to: word, among: names + Array(misnomers.keys)) {
            text += " Did you mean '\(path.name) \(misnomers[nearest] ?? nearest)'?"
        } else if path.commands.count == 1, access(word, F_OK) == 0 {
            text += " To start the broker with a configuration file, type: martlet -c \(word)"
        } else {
            text += " There are: \(names.joined(separator: ", "))."
        }
        Console.complain("\(text)\nSee '\(path.name) --help' for more information.")
        exit(path.commands.count == 1 ? wrongStart : EX_USAGE)
    }

    /// Says what there is to say of an error, or of a wish for help, and ends.
    private static func end(_ path: CommandPath, with error: any Error) -> Never {
        switch error {
        case CleanExit.help:
            Console.say(path.help())
            exit(EXIT_SUCCESS)
        case CleanExit.version:
            Console.say(path.configuration.version ?? "")
            exit(EXIT_SUCCESS)
        case let code as ExitCode:
            exit(code.rawValue)
        default:
            Console.complain(path.complaint(error))
            exit(path.commands.count == 1 || path.command is Serve.Type ? wrongStart : EX_USAGE)
        }
    }

    private static func describe(_ path: CommandPath) -> Never {
        var writer = JSONWriter()
        writer.object { object in object.object("command") { path.describe(&$0) } }
        Console.say(String(decoding: writer.bytes, as: UTF8.self))
        exit(EXIT_SUCCESS)
    }

    /// Writes a shell's script, or answers what such a script asks; returns when it is neither.
    private static func answerShell(_ root: any ParsableCommand.Type, _ arguments: [String]) {
        if arguments.first == completionScript {
            let shell = arguments.count > 1 ? arguments[1] : ""
            guard let script = ShellCompletions.script(for: shell, of: root) else {
                Console.complain("Error: \(completionScript) takes one of: \(ShellCompletions.shells.joined(separator: ", ")).")
                exit(EX_USAGE)
            }
            Console.put(script, to: 1)
            exit(EXIT_SUCCESS)
        }
        if arguments.first == ShellCompletions.question, let mark = arguments.lastIndex(of: "--"), mark > 0 {
            let prefix = mark + 1 < arguments.count ? arguments[mark + 1] : ""
            for word in ShellCompletions.answer(root, Array(arguments[1..<mark]), prefix: prefix) { Console.say(word) }
            exit(EXIT_SUCCESS)
        }
    }

    /// What some call a command, and what it is called.
    private static let misnomers = [
        "password": "passwd", "run": "serve", "start": "serve", "benchmark": "bench", "publish": "pub", "subscribe": "sub",
        "control": "ctl", "rr": "request", "import": "import-config",
    ]
}

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

    /// A broker does not run as whom this command does: whether it will be able to read the file is better known now
    /// than at its reload.
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

/// `martlet serve`: the same as `martlet` alone.
struct Serve: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "serve", abstract: "Run the broker, as martlet alone does.")

    @OptionGroup var options: ServeOptions

    func run() throws { try ServerStart(options).run() }
}

/// Brings the broker up as the command line says, and runs it until a signal ends it.
struct ServerStart {
    private let options: ServeOptions

    init(_ options: ServeOptions) { self.options = options }

    func run() throws {
        let source = ConfigurationSource(options)
        let result = source.read()
        for diagnostic in result.diagnostics { Console.complain("\(diagnostic)") }
        if options.testConfig || result.hasErrors {
            // One look finds everything: what is wrong with the files, ports and rights that are named, too.
            try check(result)
            return
        }
        var log: Log?
        do throws(ServerError) {
            let made = try Log(result.configuration.logging)
            log = made
            // Whoever reads the log later did not see the terminal.
            if hasOtherDestination(result.configuration.logging) {
                for diagnostic in result.diagnostics { made.write(.warning, "\(diagnostic)") }
            }
            let server = try Server(
                configuration: result.configuration, file: options.configFile, log: made, keyLogFile: options.tlsKeyLog,
                repairsStore: options.repair
            ) { source.read() }
            if options.daemon { try Daemon.detach() }
            try server.run()
        } catch {
            for diagnostic in error.diagnostics(in: result) { report("\(diagnostic)", log, result.configuration.logging) }
            throw ExitCode(1)
        }
    }

    /// On the terminal, and wherever else the log goes: in the background there is no terminal.
    private func report(_ line: String, _ log: Log?, _ logging: LoggingConfiguration) {
        Console.complain(line)
        if hasOtherDestination(logging) { log?.complain(line) }
    }

    private func hasOtherDestination(_ logging: LoggingConfiguration) -> Bool {
        logging.destinations.contains { ![.standardError, .standardOutput].contains($0) }
    }

    /// Says what would keep the broker from starting. Throws exit code 3 when something does.
    private func check(_ result: ConfigurationResult) throws {
        let check = StartCheck(result, file: options.configFile, keyLogFile: options.tlsKeyLog)
        for diagnostic in check.diagnostics { Console.complain("\(diagnostic)") }
        if result.hasErrors || check.hasErrors { throw ExitCode(3) }
        Console.say("Configuration file is OK.")
    }
}

/// Going on in the background, with no terminal.
enum Daemon {
    /// Forks; the parent exits with 0. Call before any thread is started: only the calling one lives on in the child.
    static func detach() throws(ServerError) {
        // `fork` is not offered to Swift, because it is unsafe once threads run. None runs yet; `daemon` forks for us.
        guard daemon(1, 0) == 0 else { throw .daemon(errno: errno) }
    }
}
