/// Plans how mosquitto's configuration becomes Martlet's. Reads, and writes nothing.
///
///     configuration and included files ─► lines, each as it is or changed ─► copies of the files that they name ─► what is wrong afterwards
///
/// Every line stays on its own, so that a copy can be laid beside its original: a line that has no use any more is a comment.
public struct ConfigurationImporter: Sendable {
    let source: ImportSource
    var target: ImportTarget
    /// mosquitto's main file, where it is on this machine.
    let mainFile: String
    /// The directory of that.
    let directory: String
    var plan = ConfigurationImport()
    /// By where a file is, where its copy will be.
    var destinations: [String: String] = [:]
    /// Lines of the target's own files, which stay.
    var kept: [ConfigurationPlaces.Line] = []

    /// - Parameters:
    ///   - file: mosquitto's main file, where it is on this machine.
    ///   - source: asked about mosquitto's files, and those of the target.
    ///   - target: where everything goes.
    public init(of file: String, source: ImportSource, target: ImportTarget) {
        mainFile = file
        directory = Self.directory(of: file)
        self.source = source
        self.target = target
    }

    /// Returns the plan of the import: nothing is written yet.
    public mutating func run() -> ConfigurationImport {
        let placed = PlacedFiles(source: source, directory: directory)
        let theirs = ConfigurationReader(files: placed, environment: [:]).read(path: mainFile)
        for diagnostic in theirs.diagnostics where diagnostic.message.hasPrefix("Unable to open") {
            plan.obstacles.append("\(diagnostic)")
        }
        guard plan.obstacles.isEmpty else { return plan }
        readTarget()
        guard plan.obstacles.isEmpty else { return plan }
        let files = includedFiles(theirs)
        let main = target.keepsMainFile ? "\(target.includeDirectory)/00-mosquitto.conf" : target.mainFile
        let opening = openingLine(among: theirs)
        add(mainFile, to: main, isMain: true, opening)
        for (file, name) in files { add(file, to: "\(target.includeDirectory)/\(name)", isMain: false, opening) }
        plan.includeDirectory = target.includeDirectory
        addDatabase(theirs.configuration.persistence)
        check(theirs.configuration)
        return plan
    }

    // MARK: The target

    /// Looks at the configuration that is there. Its own lines stay, and what mosquitto's files say of the same gives way to them.
    private mutating func readTarget() {
        guard source.kind(target.mainFile) == .file, !isImported(target.mainFile) else { return }
        let ours = ConfigurationReader(files: source.files, environment: [:]).read(path: target.mainFile)
        guard let line = ours.places.lines.last(where: { $0.identity == "include_dir" }) else {
            plan.obstacles.append(
                "\(target.mainFile) is there and has no line include_dir, so no other file beside it is read. Add the line "
                    + "\"include_dir \(target.directory)/conf.d\" to it, or import into another directory with --to.")
            return
        }
        target.existingIncludeDirectory = line.value.hasSuffix("/") ? String(line.value.dropLast()) : line.value
        if let location = ours.configuration.persistence.location { target.storeDirectory = location }
        kept = ours.places.lines.filter { $0.file == target.mainFile }
    }

    /// Whether a file is the copy that an import made.
    private func isImported(_ file: String) -> Bool {
        (try? source.files.contents(ofFile: file, bytesMax: Limits.fileBytesMax))?.starts(with: Self.mark.utf8) ?? false
    }

    /// How copies begin.
    private static let mark = "# Imported from "

    // MARK: Configuration files

    /// The included files in mosquitto's order, where they are and what they are called.
    private mutating func includedFiles(_ theirs: ConfigurationResult) -> [(file: String, name: String)] {
        var found: [(file: String, name: String)] = []
        for line in theirs.places.lines where line.identity == "include_dir" && line.file == mainFile {
            let place = source.place(of: line.value, besides: directory)
            let names = (try? source.files.names(inDirectory: place)) ?? []
            for name in names.filter({ $0.hasSuffix(".conf") && $0 != ".conf" }).sorted(by: ConfigurationReading.comesBefore) {
                let taken = found.contains { $0.name == name } || name == "00-mosquitto.conf"
                found.append((Self.joined(place, name), taken ? "\(Self.name(of: place))-\(name)" : name))
            }
        }
        return found
    }

    /// The line that decides whether anonymous clients may come in; nil where the lines say the same, or each listener has its own. The last
    /// line counts for mosquitto, while here no file may open what another one closes.
    private func openingLine(among theirs: ConfigurationResult) -> (file: String, line: Int)? {
        let lines = theirs.places.lines.filter { $0.identity == "allow_anonymous" && $0.scope == .broker }
        guard let last = lines.last, Set(lines.map(\.value)).count > 1 else { return nil }
        return (source.place(of: last.file, besides: directory), last.line)
    }

    /// Plans the copy of a configuration file.
    private mutating func add(_ file: String, to destination: String, isMain: Bool, _ opening: (file: String, line: Int)?) {
        let bytes: [UInt8]
        do throws(FileFailure) {
            bytes = try source.files.contents(ofFile: file, bytesMax: Limits.fileBytesMax)
        } catch {
            plan.obstacles.append("\(error.path): \(error.reason).")
            return
        }
        var rewriter = LineRewriter(file: file, isMain: isMain, opening: opening)
        var lines = head(for: file, isMain: isMain)
        for line in Self.lines(of: bytes) { lines.append(rewriter.rewrite(line, &self)) }
        let text = lines.joined(separator: "\n") + "\n"
        plan.copies.append(
            ConfigurationImport.Copy(source: file, destination: destination, purpose: .configuration, text: Array(text.utf8)))
    }

    /// What stands above mosquitto's lines.
    private func head(for file: String, isMain: Bool) -> [String] {
        var lines = [
            "\(Self.mark)\(file) by martlet import-config. Lines that begin with #- are mosquitto's, and have no use here."
        ]
        guard isMain, !target.keepsMainFile else { return lines }
        if let user = target.userName { lines.append("user \(user)") }
        lines.append("persistence_location \(target.storeDirectory)")
        return lines
    }

    private static func lines(of bytes: [UInt8]) -> [String] {
        var rest = bytes[...]
        if rest.starts(with: [0xEF, 0xBB, 0xBF]) { rest = rest.dropFirst(3) }
        if rest.last == UInt8(ascii: "\n") { rest = rest.dropLast() }
        return rest.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).map { line in
            String(decoding: line.last == UInt8(ascii: "\r") ? line.dropLast() : line, as: UTF8.self)
        }
    }

    // MARK: The database

    private mutating func addDatabase(_ persistence: PersistenceConfiguration) {
        guard persistence.isEnabled else { return }
        let place = source.place(of: persistence.location ?? "/", besides: directory)
        let names = persistence.isOfPlugin ? ["mosquitto.sqlite3", persistence.file] : [persistence.file, "mosquitto.sqlite3"]
        guard let name = names.first(where: { source.kind(Self.joined(place, $0)) == .file }) else {
            plan.remarks.append(
                "mosquitto has no database in \(place) (\(names[0])), so there are no sessions and no retained messages to take over."
            )
            return
        }
        plan.isDatabaseOfPlugin = name == "mosquitto.sqlite3"
        plan.database = ConfigurationImport.Copy(
            source: Self.joined(place, name), destination: Self.joined(target.storeDirectory, name), purpose: .state, text: nil)
    }

    // MARK: Afterwards

    /// Reads the configuration as it will be, and looks for what it says differently.
    private mutating func check(_ theirs: BrokerConfiguration) {
        let texts = Dictionary(
            plan.copies.compactMap { copy in copy.text.map { (copy.destination, $0) } }, uniquingKeysWith: { first, _ in first })
        let files = PlannedFiles(files: source.files, planned: texts, directory: target.includeDirectory)
        plan.result = ConfigurationReader(files: files, environment: [:]).read(path: target.mainFile)
        for option in ConfigurationOption.all where !Self.rewritten.contains(option.identity) && option.canonicalName == nil {
            guard option.differs(theirs, plan.result.configuration),
                let line = plan.result.places.line(of: option.name), kept.contains(line)
            else { continue }
            plan.remarks.append("\(line.file):\(line.line) says \"\(line.name) \(line.value)\", which mosquitto's files do not.")
        }
    }

    /// What names places, or the user, and has to be another one.
    private static let rewritten: Set<String> = ["persistence_location", "user", "pid_file", "log_dest", "listener", "include_dir"]

    // MARK: Paths

    static func directory(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    static func name(of path: String) -> String { path.split(separator: "/").last.map(String.init) ?? path }

    static func joined(_ directory: String, _ name: String) -> String {
        directory.hasSuffix("/") ? directory + name : "\(directory)/\(name)"
    }
}
