import ArgumentParsing
import Configuration
import Glibc
import MartletServer
import Persistence
import Platform

/// `martlet import-config`: the change-over from mosquitto.
struct ImportConfigCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import-config",
        abstract: "Take over mosquitto's configuration, users, rules, keys and database.",
        discussion: """
            Copies the configuration with its included files, and what they name: users, rules, keys, certificates, dynamic security and the \
            database. Paths are rewritten, owners and modes are those that the service needs. Says which lines are different in the copy, what has \
            no counterpart, and what to type next. Nothing of mosquitto's is changed, and nothing is started. Without --force no file is \
            replaced by another one; if anything fails, nothing is left behind.
            """)

    @Argument(
        help: ArgumentHelp("mosquitto's configuration, or its directory.", valueName: "mosquitto.conf"), completion: .file)
    var file = "/etc/mosquitto/mosquitto.conf"

    @Option(help: ArgumentHelp("The directory of Martlet's configuration.", valueName: "directory"), completion: .directory)
    var to = "/etc/martlet"

    @Option(
        help: ArgumentHelp(
            "Where the broker keeps what it has to remember, if no configuration there says it. (default: "
                + "/var/lib/martlet for /etc/martlet, "
                + "else data in the directory)", valueName: "directory"), completion: .directory)
    var store: String?

    @Option(
        help: ArgumentHelp(
            "Whose the files are to be: who runs the broker. (default: the service's user, else martlet)", valueName: "name"))
    var user: String?

    @Option(
        help: ArgumentHelp(
            "Where a directory of mosquitto's container is on this machine, such as /mosquitto=/srv/mosquitto; may be given again.",
            valueName: "name=directory"))
    var map: [String] = []

    @Flag(help: "Say what would be done, and do nothing.")
    var dryRun = false

    @Flag(help: "Replace files that are there; each is kept beside its successor, as NAME.old.")
    var force = false

    @Flag(help: "Leave out what mosquitto keeps in its database.")
    var noDatabase = false

    func validate() throws {
        for entry in map where Self.place(entry) == nil {
            throw ValidationError("--map takes NAME=DIRECTORY, two whole paths such as /mosquitto=/srv/mosquitto, not '\(entry)'.")
        }
    }

    func run() throws {
        let main = try mainFile()
        let directory = trimmed(FileAdvice.fullPath(of: to))
        let owner = try ImportOwner(named: user, mainFile: "\(directory)/martlet.conf")
        var plan = self.plan(of: main, to: directory, owner)
        if noDatabase { plan.database = nil }
        let report = ImportReport(plan: plan, main: main, directory: directory, owner: owner)
        try stop(plan.obstacles)

        let database = try plan.database.map {
            try ImportedDatabase($0, isOfPlugin: plan.isDatabaseOfPlugin, in: plan.result.configuration)
        }
        let process = RunningMosquitto.process(of: main)
        let persistence = plan.result.configuration.persistence
        let stores = persistence.isEnabled ? [(path: persistence.location ?? ".", isOfState: true)] : []
        let transaction = ImportTransaction(
            (plan.copies + (database?.copies ?? [])).map { owner.file(of: $0) }, owner: owner,
            directories: [(path: plan.includeDirectory, isOfState: false)] + stores, replaces: force)
        var obstacles = transaction.obstacles()
        if let process, database != nil {
            obstacles.append(
                "mosquitto is running (process \(process)), and writes all that it keeps to the disk when it ends. Stop it: "
                    + "sudo systemctl disable --now mosquitto. Then type this again, or leave its database out with --no-database.")
        }
        if let place = database?.store {
            obstacles.append(
                "there is a store in \(place) already, so mosquitto's database would not be taken over. To begin "
                    + "with mosquitto's, stop the broker and move "
                    + "\(place)/martlet.db and what begins like it away; to keep the store, give --no-database.")
        }
        report.sayCopies(database)
        report.sayLines()
        if dryRun {
            report.sayProblems(checkingFiles: false)
            if !obstacles.isEmpty { Console.say("\nIn the way:") }
            for obstacle in obstacles { Console.say("  \(obstacle)") }
            Console.say("\nNothing was written (--dry-run).")
            return
        }
        try stop(obstacles)
        do throws(ImportTransaction.Failure) {
            try transaction.run()
        } catch {
            try stop([error.description])
        }
        let hasErrors = report.sayProblems(checkingFiles: true)
        report.sayNextSteps(hasErrors: hasErrors, runs: process != nil)
        if hasErrors { throw ExitCode(3) }
    }

    // MARK: What is asked for

    private func mainFile() throws -> String {
        let path = trimmed(FileAdvice.fullPath(of: file))
        let main = ImportedFile.kind(of: path) == .directory ? "\(path)/mosquitto.conf" : path
        if let advice = FileAdvice.reading(main) { try stop(["\(advice)."]) }
        return main
    }

    private func plan(of main: String, to directory: String, _ owner: ImportOwner) -> ConfigurationImport {
        let isPackaged = directory == "/etc/martlet"
        let store = store.map { trimmed(FileAdvice.fullPath(of: $0)) } ?? (isPackaged ? "/var/lib/martlet" : "\(directory)/data")
        var target = ImportTarget(directory: directory, storeDirectory: store)
        target.userName = owner.becomes
        if isPackaged { target.runtimeDirectory = "/run/martlet" }
        if isPackaged, ImportedFile.kind(of: "/var/log/martlet") == .directory { target.logDirectory = "/var/log/martlet" }
        var source = ImportSource(files: DiskFiles(), kind: ImportedFile.kind(of:), isReadable: owner.mayRead)
        source.places = map.compactMap(Self.place)
        var importer = ConfigurationImporter(of: main, source: source, target: target)
        return importer.run()
    }

    private static func place(_ entry: String) -> (name: String, place: String)? {
        let parts = entry.split(separator: "=", maxSplits: 1).map(String.init)
        guard parts.count == 2, parts.allSatisfy({ $0.hasPrefix("/") && $0.count > 1 }) else { return nil }
        return (slashless(parts[0]), slashless(parts[1]))
    }

    private static func slashless(_ path: String) -> String {
        path.count > 1 && path.hasSuffix("/") ? slashless(String(path.dropLast())) : path
    }

    private func trimmed(_ path: String) -> String { Self.slashless(path) }

    /// Ends with exit code 1 if anything is in the way.
    private func stop(_ obstacles: [String]) throws {
        guard !obstacles.isEmpty else { return }
        for obstacle in obstacles { Console.complain("Error: \(obstacle)") }
        Console.complain("Nothing was written.")
        throw ExitCode(1)
    }
}
