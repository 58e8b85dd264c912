import ArgumentParsing
import Persistence
import Platform

/// Where a store is: in the directory that is named, or where the broker's configuration has it. A store that is not called martlet.db is
/// named by its file.
struct StorePlace: ParsableArguments {
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
