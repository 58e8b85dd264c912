/// What an import asks the machine about mosquitto's files.
public struct ImportSource: Sendable {
    /// What is at a path.
    public enum Kind: Sendable, Equatable {
        case missing
        case file
        case directory
    }

    /// Reads the files.
    public var files: any FileSource
    /// What is at a path.
    public var kind: @Sendable (String) -> Kind
    /// Whether the broker's user may read a file where it is.
    public var isReadable: @Sendable (String) -> Bool
    /// What mosquitto calls a directory, such as that of a container's volume, and where it is on this machine.
    public var places: [(name: String, place: String)] = []

    public init(
        files: any FileSource, kind: @escaping @Sendable (String) -> Kind, isReadable: @escaping @Sendable (String) -> Bool
    ) {
        self.files = files
        self.kind = kind
        self.isReadable = isReadable
    }

    /// Where a file is that mosquitto calls by a path. mosquitto's service works in `/`, and people mean the directory of the configuration.
    func place(of path: String, besides directory: String) -> String {
        for (name, place) in places where path == name || path.hasPrefix("\(name)/") { return place + path.dropFirst(name.count) }
        guard !path.hasPrefix("/") else { return path }
        return kind("/\(path)") == .missing ? "\(directory)/\(path)" : "/\(path)"
    }
}

/// mosquitto's files by the names that it knows them by.
struct PlacedFiles: FileSource {
    let source: ImportSource
    let directory: String

    func contents(ofFile path: String, bytesMax: Int) throws(FileFailure) -> [UInt8] {
        try source.files.contents(ofFile: source.place(of: path, besides: directory), bytesMax: bytesMax)
    }

    func names(inDirectory path: String) throws(FileFailure) -> [String] {
        try source.files.names(inDirectory: source.place(of: path, besides: directory))
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
