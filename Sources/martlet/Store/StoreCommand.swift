import BrokerCore
import BrokerModel
import Commands
import Configuration
import MartletServer
import Persistence
import Platform

/// `martlet store`: looks after the files that the broker keeps its state in.
struct StoreCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "store",
        abstract: "Check, show, copy and import the broker's store.",
        discussion: """
            The store is the file martlet.db, with the files beside it, in the directory that persistence_location names; with \
            persistence_file NAME it is martlet-NAME. All but import can be used while the broker runs, and change nothing. Run them as \
            the user that the broker runs as.
            """,
        subcommands: [StoreCheckCommand.self, StoreDumpCommand.self, StoreBackupCommand.self, StoreImportCommand.self])
}

/// `martlet store check`: reads all of a store and says whether it is whole.
struct StoreCheckCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Verify every record, and say how many there are; exits with 1 if anything is wrong.")

    @OptionGroup var location: StoreArguments

    func run() throws {
        let (directory, name) = try location.path()
        let summary = try StoreFailure.describing { () throws(StoreError) in
            try SQLiteStore.check(directory, named: name) { $0.hasMeaning(key: $1, body: $2) }
        }
        for damage in summary.damages { Console.complain("\(damage)") }
        let state = summary.damages.isEmpty ? "is whole" : "is damaged"
        Console.say("The store in \(directory) \(state)\(summary.commitNumber.map { ", as of commit \($0)" } ?? ""). Records:")
        for table in StoreTable.allCases {
            let name = table.name + String(repeating: " ", count: 14 - table.name.count)
            Console.say("  \(name)\(summary.count(of: table))")
        }
        if !summary.damages.isEmpty { throw ExitCode(1) }
    }
}

/// `martlet store dump`: prints all of a store.
struct StoreDumpCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dump",
        abstract: "Print every record as a line of JSON; exits with 1 if any is damaged.",
        discussion: """
            Keys are strings, since they have 64 bits. Payloads are strings where they are UTF-8, else Base64 under a name that says so. Times \
            are milliseconds since 1970. Damaged records are reported on standard error.
            """)

    @OptionGroup var location: StoreArguments

    func run() throws {
        let (directory, name) = try location.path()
        let isShown = Terminal.isAttached(to: 1)
        let summary = try StoreFailure.describing { () throws(StoreError) in
            try SQLiteStore.check(directory, named: name) { table, key, body in
                // What clients have written does nothing to a terminal.
                let row = Array(StoreRowText.json(table, key: key, body: body).utf8)
                Console.put((isShown ? TerminalText.json(row) : row) + [UInt8(ascii: "\n")], to: 1)
                return table.hasMeaning(key: key, body: body)
            }
        }
        for damage in summary.damages { Console.complain("\(damage)") }
        if !summary.damages.isEmpty { throw ExitCode(1) }
    }
}

/// `martlet store backup`: copies a store.
struct StoreBackupCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup",
        abstract: "Copy the store, as of its last commit, into a directory that has none.",
        usage: """
            martlet store backup DIRECTORY TARGET
            martlet store backup -c FILE TARGET
            """,
        discussion: "The copy is verified. To restore it, replace the store's files with it while the broker is stopped.")

    @OptionGroup var configuration: StoreConfiguration

    @Argument(help: ArgumentHelp("The store's directory, or with -c that of the copy.", valueName: "directory"))
    var first: String

    @Argument(help: ArgumentHelp("The copy's directory; created if it does not exist.", valueName: "target"))
    var second: String?

    func validate() throws { try configuration.require(or: second) }

    func run() throws {
        let target = second ?? first
        let (directory, name) = second == nil ? try configuration.location() : StoreArguments.parts(first)
        let summary = try StoreFailure.describing { () throws(StoreError) in
            try SQLiteStore.backup(directory, named: name, to: target)
        }
        let count = StoreTable.allCases.reduce(0) { $0 + summary.count(of: $1) }
        let commit = summary.commitNumber.map { ", as of commit \($0)" } ?? ""
        Console.say("Copied \(count) \(count == 1 ? "record" : "records") to \(target)\(commit).")
    }
}

/// `martlet store import`: takes over what mosquitto kept.
struct StoreImportCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Import mosquitto's database into a directory that has no store.",
        discussion: """
            Stop mosquitto first, so that its file is complete. Sessions, subscriptions, queued messages and retained messages are imported; \
            mosquitto's file stays as it is. With -c the sessions are assigned to the listeners that their clients used.
            """)

    @Argument(
        help: ArgumentHelp(
            "mosquitto's file, such as /var/lib/mosquitto/mosquitto.db, or mosquitto.sqlite3 of its persist-sqlite plug-in.",
            valueName: "mosquitto.db"),
        completion: .file)
    var file: String

    @OptionGroup var location: StoreArguments

    func run() throws {
        let (directory, name) = try location.path()
        let database = try read()
        let rows = MosquittoImport(of: database, listenerPorts: try location.configuration.listenerPorts())
        try StoreFailure.describing { () throws(StoreError) in
            try SQLiteStore.create(directory, named: name, holding: rows.batch)
        }
        report(rows.counts, to: directory)
        if !database.wasWrittenAtEnd {
            Console.complain("Warning: mosquitto was running when it wrote this file. Later changes are not in it.")
        }
    }

    private func read() throws -> MosquittoDatabase {
        let bytes: [UInt8]
        do throws(FileFailure) {
            bytes = try DiskFiles().contents(ofFile: file, bytesMax: .max)
        } catch {
            throw StoreFailure.end("\(file): \(error.reason).")
        }
        if MosquittoDatabase.isOfPlugin(bytes) { return try readPlugin() }
        do throws(MosquittoDatabaseError) {
            return try MosquittoDatabase(bytes)
        } catch {
            throw StoreFailure.end("\(file): \(error).")
        }
    }

    private func readPlugin() throws -> MosquittoDatabase {
        do throws(MosquittoPluginDatabaseError) {
            return try MosquittoDatabase(ofPlugin: file)
        } catch {
            throw StoreFailure.end("\(file): \(error).")
        }
    }

    private func report(_ counts: MosquittoImportCounts, to directory: String) {
        Console.say("Imported \(file) into \(directory):")
        Console.say("  sessions            \(counts.sessions)")
        Console.say("  subscriptions       \(counts.subscriptions)")
        Console.say("  queued messages     \(counts.queuedMessages)")
        Console.say("  received messages   \(counts.receivedMessages)")
        Console.say("  retained messages   \(counts.retainedMessages)")
        if counts.leftOut > 0 {
            let verb = counts.leftOut == 1 ? "record that belongs" : "records that belong"
            Console.complain("Warning: left out \(counts.leftOut) \(verb) to nothing in the file.")
        }
    }
}

/// How a command ends that cannot do its work on a store.
enum StoreFailure {
    /// What `body` gives, or exit code 1 behind the reason.
    static func describing<Answer>(_ body: () throws(StoreError) -> Answer) throws -> Answer {
        do throws(StoreError) {
            return try body()
        } catch {
            throw end("\(error)")
        }
    }

    static func end(_ reason: String) -> ExitCode {
        Console.complain("Error: \(reason)")
        return ExitCode(1)
    }
}

/// Where a store is: in the directory that is named, or where the broker's configuration has it. A store that is not
/// called martlet.db is named by its file.
struct StoreArguments: ParsableArguments {
    @OptionGroup var configuration: StoreConfiguration

    @Argument(help: "The store's directory, or its file if that is not martlet.db.", completion: .directory)
    var directory: String?

    func validate() throws { try configuration.require(or: directory) }

    /// The directory, and the database's name in it.
    func path() throws -> (directory: String, name: String) {
        try directory.map(Self.parts) ?? configuration.location()
    }

    /// A path that ends in `.db` is the database's, unless a directory is called so; any other is a directory's.
    static func parts(_ path: String) -> (directory: String, name: String) {
        guard path.hasSuffix(".db"), FileAccess.obstacle(toWriting: path) != .isDirectory(FullPath.of(path)) else {
            return (path, SQLiteStore.defaultName)
        }
        guard let slash = path.lastIndex(of: "/") else { return (".", path) }
        return (String(path[..<slash]), String(path[path.index(after: slash)...]))
    }
}

/// The broker's configuration, as far as it says something about the store.
struct StoreConfiguration: ParsableArguments {
    @Option(
        name: [.short, .customLong("config-file")],
        help: ArgumentHelp(
            "The broker's configuration: its persistence_location is the directory, if none is named.", valueName: "file"),
        completion: .file)
    var configFile: String?

    /// Throws if there is neither a configuration nor a directory that the command line names.
    func require(or directory: String?) throws {
        guard directory != nil || configFile != nil else {
            throw ValidationError("Name the store's directory, or the broker's configuration with -c.")
        }
    }

    /// Where the broker has its store, and what it calls it.
    func location() throws -> (directory: String, name: String) {
        let persistence = try read()?.persistence ?? PersistenceConfiguration()
        return (persistence.location ?? ".", persistence.storeName)
    }

    /// The ports of the listeners, in their order, and 0 for a socket without one, as mosquitto has it; none without a
    /// configuration.
    func listenerPorts() throws -> [UInt16] {
        try read()?.listeners.map { listener in
            switch listener.endpoint {
            case .tcp(let port, _), .loopback(let port): port
            case .unixSocket: 0
            }
        } ?? []
    }

    private func read() throws -> BrokerConfiguration? {
        guard let configFile else { return nil }
        let reader = ConfigurationReader(files: DiskFiles(), environment: ConfigurationSource.environment)
        let result = reader.read(path: configFile, ports: [])
        for diagnostic in result.diagnostics where diagnostic.severity == .error { Console.complain("\(diagnostic)") }
        if result.hasErrors { throw ExitCode(1) }
        return result.configuration
    }
}
