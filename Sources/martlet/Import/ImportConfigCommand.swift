import Commands
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
        for entry in map where Self.directory(entry) == nil {
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
        source.directories = map.compactMap(Self.directory)
        var importer = ConfigurationImporter(of: main, source: source, target: target)
        return importer.run()
    }

    private static func directory(_ entry: String) -> (name: String, path: String)? {
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

/// A mosquitto that runs on this machine.
enum RunningMosquitto {
    /// The process that runs with a configuration file; nil when none does, or this user is not shown it.
    static func process(of file: String) -> Int32? {
        guard let wanted = resolved(file), let names = try? DiskFiles().names(inDirectory: "/proc") else { return nil }
        return names.compactMap { Int32($0) }.sorted().first { process in
            guard text(of: "/proc/\(process)/comm")?.hasPrefix("mosquitto\n") == true, sharesRoot(process) else { return false }
            let words = (text(of: "/proc/\(process)/cmdline") ?? "").split(separator: "\0").map(String.init)
            return words.contains { resolved($0) == wanted }
        }
    }

    /// Whether the process means the same files by its paths: one in a container does not.
    private static func sharesRoot(_ process: Int32) -> Bool {
        var own = stat()
        var others = stat()
        guard stat("/", &own) == 0, stat("/proc/\(process)/root/", &others) == 0 else { return geteuid() != 0 }
        return own.st_dev == others.st_dev && own.st_ino == others.st_ino
    }

    private static func text(of path: String) -> String? {
        (try? WholeFile.bytes(of: path, bytesMax: 1 << 16)).map { String(decoding: $0, as: UTF8.self) }
    }

    private static func resolved(_ path: String) -> String? {
        guard let resolved = realpath(path, nil) else { return nil }
        defer { free(resolved) }
        return String(cString: resolved)
    }
}

/// What `martlet import-config` prints about an import.
struct ImportReport {
    let plan: ConfigurationImport
    /// mosquitto's file.
    let main: String
    /// Martlet's directory.
    let directory: String
    let owner: ImportOwner

    private var ourMain: String { "\(directory)/martlet.conf" }
    private var unit: ServiceUnit? { ServiceUnit.running(ourMain) }

    /// Every file, and its copy.
    func sayCopies(_ database: ImportedDatabase?) {
        let copies = plan.copies + (database?.copies ?? [])
        let width = copies.map(\.source.count).max() ?? 0
        Console.say("mosquitto's files, and their copies\(owner.names.map { " for the user \($0.user)" } ?? ""):")
        for copy in copies {
            let file = owner.file(of: copy)
            let names = owner.names.map { " \(copy.purpose == .state ? $0.user : "root"):\($0.group)" } ?? ""
            Console.say(
                "  \(copy.source)\(String(repeating: " ", count: width - copy.source.count))  ->  \(copy.destination)  "
                    + "(\(String(file.mode, radix: 8))\(names))")
        }
        if let database {
            let counts = database.counts
            Console.say(
                "  The database holds \(Self.number(counts.sessions, "session")), \(Self.number(counts.subscriptions, "subscription")), "
                    + "\(Self.number(counts.queuedMessages, "queued message")) and \(Self.number(counts.retainedMessages, "retained message")). The broker "
                    + "takes them over at its first start.")
            if !database.isComplete {
                Console.say("  mosquitto was running when it wrote the database: what came later is not in it.")
            }
        }
    }

    /// Every line that is another one in its copy, what has no counterpart, and what else there is to know.
    func sayLines() {
        var file = ""
        if !plan.changes.isEmpty { Console.say("\nLines that are different in the copy:") }
        for change in plan.changes {
            if change.file != file { Console.say("  \(change.file)") }
            file = change.file
            let reason = change.reason.map { "   (\($0))" } ?? ""
            Console.say("    \(change.line): - \(change.before)\(change.after == nil ? reason : "")")
            if let after = change.after {
                Console.say("    \(String(repeating: " ", count: "\(change.line)".count))  + \(after)\(reason)")
            }
        }
        say("Without a counterpart:", plan.withoutCounterpart)
        say("To know:", plan.remarks)
    }

    /// Prints what is wrong with the result, or not as it was meant. Returns whether the broker could not start with
    /// it.
    @discardableResult
    func sayProblems(checkingFiles: Bool) -> Bool {
        var result = plan.result
        if checkingFiles {
            result = ConfigurationReader(files: DiskFiles(), environment: ConfigurationSource.environment).read(path: ourMain)
        }
        result.diagnostics += ConfigurationSupport.objections(to: result)
        var diagnostics = result.diagnostics
        if checkingFiles { diagnostics += StartCheck(result, file: ourMain, keyLogFile: nil).diagnostics }
        if !diagnostics.isEmpty { Console.say("\nWhat Martlet says of the copies:") }
        for diagnostic in diagnostics { Console.say("  \(diagnostic)") }
        return diagnostics.contains { $0.severity == .error }
    }

    /// What to type now.
    ///
    /// - Parameters:
    ///   - hasErrors: whether the broker would not start yet.
    ///   - runs: whether mosquitto still does.
    func sayNextSteps(hasErrors: Bool, runs: Bool) {
        Console.say(
            "\nNothing of mosquitto's was changed, and nothing was started. \(hasErrors ? "Correct what is called an error; then" : "Now") type:"
        )
        if hasErrors { Console.say("  sudo martlet --test-config -c \(ourMain)") }
        guard let unit else {
            if runs { Console.say("  sudo systemctl disable --now mosquitto") }
            return Console.say("  \(owner.names == nil ? "" : "sudo ")martlet -c \(ourMain)")
        }
        let name = unit.name.hasSuffix(".service") ? String(unit.name.dropLast(".service".count)) : unit.name
        let isEnabled = access("/etc/systemd/system/multi-user.target.wants/mosquitto.service", F_OK) == 0
        if runs || isEnabled { Console.say("  sudo systemctl disable --now mosquitto") }
        Console.say("  sudo systemctl enable \(name)")
        Console.say("  sudo systemctl restart \(name)")
        Console.say("  journalctl -u \(name)")
        Console.say("To go back:")
        Console.say("  sudo systemctl disable --now \(name)")
        Console.say("  sudo systemctl enable --now mosquitto")
    }

    private func say(_ title: String, _ lines: [String]) {
        guard !lines.isEmpty else { return }
        Console.say("\n\(title)")
        for line in lines { Console.say("  \(line)") }
    }

    private static func number(_ count: Int, _ noun: String) -> String { "\(count) \(noun)\(count == 1 ? "" : "s")" }
}

/// Writes the files of an import: all of them, or none. Each is made beside its place first, and the last one is there
/// before any is renamed.
struct ImportTransaction {
    /// What went wrong, as a sentence.
    struct Failure: Error {
        let description: String

        fileprivate init(_ path: String, _ operation: String) {
            description = "\(path): \(operation): \(strerror(errno).map { String(cString: $0) } ?? "error \(errno)")."
        }
    }

    /// The files that have to be written: all that are not there already with the same contents.
    private let files: [ImportedFile]
    private let owner: ImportOwner
    /// Directories that the broker needs, with or without files: that of the configuration, and the store's if it has
    /// one.
    private let directories: [(path: String, isOfState: Bool)]
    private let replaces: Bool

    /// - Parameters:
    ///   - files: in any order; configurations are put in their place last.
    ///   - owner: of directories that are made.
    ///   - directories: made if they are not there.
    ///   - replaces: whether other files in their places are kept under another name, else they are in the way.
    init(_ files: [ImportedFile], owner: ImportOwner, directories: [(path: String, isOfState: Bool)], replaces: Bool) {
        let missing = files.filter { !$0.isThere }
        self.files = missing.filter { $0.text == nil } + missing.filter { $0.text != nil }.reversed()
        self.owner = owner
        self.directories = directories
        self.replaces = replaces
    }

    /// What keeps it from being done, as sentences.
    func obstacles() -> [String] {
        var found: [String] = []
        let paths = files.map(\.destination) + directories.map { "\($0.path)/file" }
        for place in Set(paths.map { Self.existingDirectory(above: $0) }).sorted() {
            guard let obstacle = FileAccess.obstacle(toMakingFilesIn: place) else { continue }
            found.append(
                geteuid() == 0
                    ? "\(place): \(obstacle)."
                    : "\(UserName.current) may not make files in \(place). Type it with sudo, or name another directory with --to.")
        }
        for file in files {
            if let descriptor = file.text == nil ? ImportedFile.open(file.source) : -1 {
                if descriptor >= 0 { close(descriptor) }
            } else {
                let reason =
                    errno == ELOOP
                    ? "is a symbolic link in a directory that is not root's alone, which root does not follow" : "cannot be read"
                found.append("\(file.source) \(reason).")
            }
        }
        let taken = files.map(\.destination).filter { Self.isThere($0) }
        guard !taken.isEmpty, !replaces else { return found }
        return found + [
            "\(taken.count == 1 ? "this file is" : "these files are") there and different: \(taken.joined(separator: ", ")). With --force they are replaced, "
                + "and kept as NAME.old."
        ]
    }

    func run() throws(Failure) {
        var made = Made()
        do throws(Failure) {
            for directory in directories { try makeDirectory(directory.path, isOfState: directory.isOfState, &made) }
            for file in files { try stage(file, &made) }
            for file in files { try put(file, &made) }
        } catch {
            made.undo()
            throw error
        }
        for directory in Set(files.map { Self.directory(of: $0.destination) }) { Self.synchronize(directory) }
    }

    // MARK: Steps

    /// What was done so far.
    private struct Made {
        var directories: [String] = []
        /// Written beside their places.
        var staged: [String] = []
        /// In their places, and the names of what was there.
        var placed: [(path: String, former: String?)] = []

        /// Takes everything back.
        func undo() {
            for (path, former) in placed.reversed() {
                if let former { rename(former, path) } else { unlink(path) }
            }
            for path in staged { unlink(path) }
            for path in directories.reversed() { rmdir(path) }
        }
    }

    private func stage(_ file: ImportedFile, _ made: inout Made) throws(Failure) {
        try makeDirectory(Self.directory(of: file.destination), isOfState: file.mode == 0o600, &made)
        let path = Self.stagedPath(of: file)
        unlink(path)
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Failure(path, "cannot be made") }
        made.staged.append(path)
        defer { close(descriptor) }
        let isWhole = file.read { piece in
            var rest = piece
            while !rest.isEmpty {
                let count = write(descriptor, rest.baseAddress, rest.count)
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { return false }
                rest = UnsafeRawBufferPointer(rebasing: rest[count...])
            }
            return true
        }
        guard isWhole else { throw Failure(file.destination, "cannot be copied from \(file.source)") }
        if owner.names != nil {
            guard fchown(descriptor, file.user, file.group) == 0 else { throw Failure(file.destination, "cannot be given away") }
        }
        guard fchmod(descriptor, file.mode) == 0, fsync(descriptor) == 0 else {
            throw Failure(file.destination, "cannot be written")
        }
    }

    private func put(_ file: ImportedFile, _ made: inout Made) throws(Failure) {
        var former: String?
        if Self.isThere(file.destination) {
            let name = Self.freeName("\(file.destination).old")
            guard link(file.destination, name) == 0 else { throw Failure(file.destination, "cannot be kept as \(name)") }
            former = name
        }
        let staged = Self.stagedPath(of: file)
        guard rename(staged, file.destination) == 0 else {
            let failure = Failure(file.destination, "cannot be put in its place")
            if let former { unlink(former) }
            throw failure
        }
        made.staged.removeAll { $0 == staged }
        made.placed.append((file.destination, former))
    }

    private func makeDirectory(_ path: String, isOfState: Bool, _ made: inout Made) throws(Failure) {
        guard ImportedFile.kind(of: path) == .missing else { return }
        try makeDirectory(Self.directory(of: path), isOfState: false, &made)
        guard mkdir(path, isOfState ? 0o700 : 0o755) == 0 else { throw Failure(path, "cannot be made") }
        made.directories.append(path)
        guard owner.give(directory: path, isOfState: isOfState) else { throw Failure(path, "cannot be given away") }
    }

    // MARK: Paths

    private static func isThere(_ path: String) -> Bool {
        var status = stat()
        return lstat(path, &status) == 0
    }

    /// A name that no include_dir reads.
    private static func stagedPath(of file: ImportedFile) -> String {
        let name = file.destination.split(separator: "/").last ?? ""
        return "\(directory(of: file.destination))/.\(name).import-\(getpid())"
    }

    private static func freeName(_ path: String) -> String {
        guard isThere(path) else { return path }
        return (2...).lazy.map { "\(path)\($0)" }.first { !isThere($0) } ?? path
    }

    private static func existingDirectory(above path: String) -> String {
        let directory = directory(of: path)
        return directory == "/" || isThere(directory) ? directory : existingDirectory(above: directory)
    }

    private static func directory(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/"), slash != path.startIndex else { return "/" }
        return String(path[..<slash])
    }

    private static func synchronize(_ directory: String) {
        let descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { return }
        fsync(descriptor)
        close(descriptor)
    }
}
