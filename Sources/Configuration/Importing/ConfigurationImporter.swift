internal import Platform

/// Plans how mosquitto's configuration becomes Martlet's. Reads, and writes nothing.
///
///     configuration and included files ─► lines, each as it is or changed ─► copies of the files that they name ─► what is wrong afterwards
///
/// Every line stays on its own, so that a copy can be laid beside its original: a line that has no use any more is a
/// comment.
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
    var kept: [ConfigurationLocations.Line] = []

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

    /// Looks at the configuration that is there. Its own lines stay, and what mosquitto's files say of the same gives
    /// way to them.
    private mutating func readTarget() {
        guard source.kind(target.mainFile) == .file, !isImported(target.mainFile) else { return }
        let ours = ConfigurationReader(files: source.files, environment: [:]).read(path: target.mainFile)
        guard let line = ours.locations.lines.last(where: { $0.identity == "include_dir" }) else {
            plan.obstacles.append(
                "\(target.mainFile) is there and has no line include_dir, so no other file beside it is read. Add the line "
                    + "\"include_dir \(target.directory)/conf.d\" to it, or import into another directory with --to.")
            return
        }
        target.existingIncludeDirectory = line.value.hasSuffix("/") ? String(line.value.dropLast()) : line.value
        if let location = ours.configuration.persistence.location { target.storeDirectory = location }
        kept = ours.locations.lines.filter { $0.file == target.mainFile }
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
        for line in theirs.locations.lines where line.identity == "include_dir" && line.file == mainFile {
            let place = source.realPath(of: line.value, besides: directory)
            let names = (try? source.files.names(inDirectory: place)) ?? []
            for name in names.filter({ $0.hasSuffix(".conf") && $0 != ".conf" }).sorted(by: ConfigurationReading.comesBefore) {
                let taken = found.contains { $0.name == name } || name == "00-mosquitto.conf"
                found.append((Self.joined(place, name), taken ? "\(Self.name(of: place))-\(name)" : name))
            }
        }
        return found
    }

    /// The line that decides whether anonymous clients may come in; nil where the lines say the same, or each listener
    /// has its own. The last line counts for mosquitto, while here no file may open what another one closes.
    private func openingLine(among theirs: ConfigurationResult) -> (file: String, line: Int)? {
        let lines = theirs.locations.lines.filter { $0.identity == "allow_anonymous" && $0.scope == .broker }
        guard let last = lines.last, Set(lines.map(\.value)).count > 1 else { return nil }
        return (source.realPath(of: last.file, besides: directory), last.line)
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
        let place = source.realPath(of: persistence.location ?? "/", besides: directory)
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
                let line = plan.result.locations.line(of: option.name), kept.contains(line)
            else { continue }
            let value = ConfigurationOption.shown(line.value, of: line.name)
            plan.remarks.append("\(line.file):\(line.line) says \"\(line.name) \(value)\", which mosquitto's files do not.")
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

/// The files that lines name.
extension ConfigurationImporter {
    /// Plans a copy, and returns the path of it.
    mutating func copy(_ path: String, _ purpose: ConfigurationImport.Purpose, option: String, line: String) -> String {
        let place = source.realPath(of: path, besides: directory)
        guard source.kind(place) == .file else {
            addMissing(place, option: option, line: line)
            return path
        }
        return copied(place, purpose)
    }

    /// Copies a certificate or a key, where it cannot stay where it is.
    mutating func copyIfNeeded(_ path: String, option: String, line: String) -> String {
        let place = source.realPath(of: path, besides: directory)
        guard source.kind(place) == .file else {
            addMissing(place, option: option, line: line)
            return path
        }
        if !isMosquittos(path), source.isReadable(place) { return place }
        if !isMosquittos(path) {
            plan.remarks.append(
                "\(line): \(place) is not mosquitto's, and the broker's user may not read it, so a copy is taken. "
                    + "Whoever renews it has to renew the "
                    + "copy too.")
        }
        return copied(place, .certificate)
    }

    /// Copies a directory of certificates, where it cannot stay where it is.
    mutating func copyDirectoryIfNeeded(_ path: String, option: String, line: String) -> String {
        let place = source.realPath(of: path, besides: directory)
        guard source.kind(place) == .directory, let names = try? source.files.names(inDirectory: place) else {
            addMissing(place, option: option, line: line)
            return path
        }
        let files = names.sorted().map { Self.joined(place, $0) }.filter { source.kind($0) == .file }
        if !isMosquittos(path), files.allSatisfy(source.isReadable) { return place }
        let destination = freeDestination(for: place, below: "certs")
        for file in files where destinations[file] == nil {
            destinations[file] = "\(destination)/\(Self.name(of: file))"
            plan.copies.append(
                ConfigurationImport.Copy(
                    source: file, destination: "\(destination)/\(Self.name(of: file))", purpose: .certificate, text: nil))
        }
        destinations[place] = destination
        return destination
    }

    /// Plans the copy of what the broker writes itself; where it is not there yet, the broker makes it.
    mutating func copyState(_ path: String) -> String {
        let place = source.realPath(of: path, besides: directory)
        let destination = destinations[place] ?? Self.joined(target.storeDirectory, Self.name(of: place))
        if destinations.updateValue(destination, forKey: place) == nil, source.kind(place) == .file {
            plan.copies.append(ConfigurationImport.Copy(source: place, destination: destination, purpose: .state, text: nil))
        }
        return destination
    }

    func isMissing(_ path: String) -> Bool { source.kind(source.realPath(of: path, besides: directory)) == .missing }

    mutating func remarkIfUnreadable(_ path: String, option: String, line: String) {
        let place = source.realPath(of: path, besides: directory)
        if isMosquittos(path) || !source.isReadable(place) {
            plan.remarks.append("\(line): \(option) \(place) stays where it is; see that the broker's user may read all of it.")
        }
    }

    /// Whether a path is below mosquitto's own directories: that of its configuration, those of its packages and of its
    /// container.
    func isMosquittos(_ path: String) -> Bool {
        let place = source.realPath(of: path, besides: directory)
        let directories = [directory] + OtherHolder.directories + source.directories.map(\.path) + source.directories.map(\.name)
        return directories.contains { $0 != "/" && (path.hasPrefix("\($0)/") || place.hasPrefix("\($0)/")) }
    }

    /// Whether no include_dir has come before.
    mutating func isFirstInclude() -> Bool { destinations.updateValue(target.includeDirectory, forKey: "include_dir") == nil }

    private mutating func copied(_ place: String, _ purpose: ConfigurationImport.Purpose) -> String {
        if let destination = destinations[place] { return destination }
        let destination = freeDestination(for: place, below: purpose == .certificate ? "certs" : nil)
        destinations[place] = destination
        plan.copies.append(ConfigurationImport.Copy(source: place, destination: destination, purpose: purpose, text: nil))
        return destination
    }

    /// Where a file goes: to the same place below the target as it has below mosquitto's configuration, else by its
    /// name.
    private func freeDestination(for place: String, below folder: String?) -> String {
        let base = folder.map { "\(target.directory)/\($0)" } ?? target.directory
        var wanted = [
            "\(base)/\(Self.name(of: place))", "\(base)/\(Self.name(of: Self.directory(of: place)))-\(Self.name(of: place))",
        ]
        if place.hasPrefix("\(directory)/") { wanted.insert("\(target.directory)/\(place.dropFirst(directory.count + 1))", at: 0) }
        let taken = Set(destinations.values).union([target.mainFile, target.includeDirectory])
        if let free = wanted.first(where: { !taken.contains($0) }) { return free }
        return (2...).lazy.map { "\(wanted[0])-\($0)" }.first { !taken.contains($0) } ?? wanted[0]
    }

    private mutating func addMissing(_ place: String, option: String, line: String) {
        let isContainers =
            place.hasPrefix("/mosquitto/") || place.hasPrefix("/data/") || place.hasPrefix("/share/") || place.hasPrefix("/ssl/")
        let hint =
            isContainers
            ? " mosquitto seems to run in a container: say where its directory is on this machine, such as --map /mosquitto=/srv/mosquitto."
            : ""
        plan.obstacles.append("\(line): \(option): \(place) is not there.\(hint)")
    }
}

/// Where an imported configuration goes, and what is there already.
public struct ImportTarget: Sendable, Equatable {
    /// The directory of the configuration, such as `/etc/martlet`.
    public var directory: String
    /// Where the broker keeps what it has to remember.
    public var storeDirectory: String
    /// Where its log files may be; nil for nowhere.
    public var logDirectory: String?
    /// Where its sockets may be; nil for nowhere.
    public var runtimeDirectory: String?
    /// The user that a broker becomes when root starts it; nil where the import is not root's.
    public var userName: String?
    /// The files of the directory that `include_dir` names, where there is a main file that stays as it is; nil where
    /// there is none yet.
    public internal(set) var existingIncludeDirectory: String?

    /// The file that the broker is started with.
    public var mainFile: String { "\(directory)/martlet.conf" }
    /// Where included files go.
    public var includeDirectory: String { existingIncludeDirectory ?? "\(directory)/conf.d" }
    /// Whether the main file is there, and stays as it is.
    public var keepsMainFile: Bool { existingIncludeDirectory != nil }

    /// - Parameters:
    ///   - directory: of the configuration.
    ///   - storeDirectory: for a configuration that is not there yet; else its own counts.
    public init(directory: String, storeDirectory: String) {
        self.directory = directory
        self.storeDirectory = storeDirectory
    }
}

/// What an import asks the machine about mosquitto's files.
public struct ImportSource: Sendable {
    /// The kind of file at a path.
    public enum Kind: Sendable, Equatable {
        case missing
        case file
        case directory
    }

    /// Reads the files.
    public var files: any FileSource
    /// Says which kind of file is at a path.
    public var kind: @Sendable (String) -> Kind
    /// Whether the broker's user may read a file where it is.
    public var isReadable: @Sendable (String) -> Bool
    /// What mosquitto calls a directory, such as that of a container's volume, and where it is on this machine.
    public var directories: [(name: String, path: String)] = []

    public init(
        files: any FileSource, kind: @escaping @Sendable (String) -> Kind, isReadable: @escaping @Sendable (String) -> Bool
    ) {
        self.files = files
        self.kind = kind
        self.isReadable = isReadable
    }

    /// Where a file is that mosquitto calls by a path. mosquitto's service works in `/`, and people mean the directory
    /// of the configuration.
    func realPath(of path: String, besides directory: String) -> String {
        for (name, real) in directories where path == name || path.hasPrefix("\(name)/") {
            return real + path.dropFirst(name.count)
        }
        guard !path.hasPrefix("/") else { return path }
        return kind("/\(path)") == .missing ? "\(directory)/\(path)" : "/\(path)"
    }
}

/// mosquitto's files by the names that it knows them by.
struct PlacedFiles: FileSource {
    let source: ImportSource
    let directory: String

    func contents(ofFile path: String, bytesMax: Int) throws(FileFailure) -> [UInt8] {
        try source.files.contents(ofFile: source.realPath(of: path, besides: directory), bytesMax: bytesMax)
    }

    func names(inDirectory path: String) throws(FileFailure) -> [String] {
        try source.files.names(inDirectory: source.realPath(of: path, besides: directory))
    }
}

/// The files of the machine as they will be when an import is done.
struct PlannedFiles: FileSource {
    let files: any FileSource
    /// The texts that are written, by their paths.
    let planned: [String: [UInt8]]
    /// A directory that will be there, even if nothing is in it.
    let directory: String

    func contents(ofFile path: String, bytesMax: Int) throws(FileFailure) -> [UInt8] {
        if let text = planned[path] { return text }
        return try files.contents(ofFile: path, bytesMax: bytesMax)
    }

    func names(inDirectory path: String) throws(FileFailure) -> [String] {
        let directory = path.hasSuffix("/") ? path : "\(path)/"
        let made = planned.keys.filter { $0.hasPrefix(directory) }.map { String($0.dropFirst(directory.count)) }
            .filter { !$0.contains("/") }
        do throws(FileFailure) {
            let there = try files.names(inDirectory: path)
            return there.filter { !made.contains($0) } + made
        } catch {
            if !made.isEmpty || path == self.directory { return made }
            throw error
        }
    }
}
