import Configuration
import Platform

/// A file that is to be read and is not there: which part of its path is missing, and which one was probably meant.
struct MissingFile {
    let path: String
    /// The first directory on the way that is not there; nil if only the file is missing.
    private(set) var directory: String?
    /// A file that is there and has nearly the same path; nil if there is none.
    private(set) var neighbour: String?

    /// - Parameter path: a whole path.
    init(_ path: String) {
        self.path = path
        let parts = path.split(separator: "/").map(String.init)
        var place = ""
        for (index, part) in parts.enumerated() {
            if FileAccess.obstacle(toReading: "\(place)/\(part)").map({ if case .missing = $0 { true } else { false } }) ?? false {
                if index < parts.count - 1 { directory = "\(place)/\(part)" }
                neighbour = Self.neighbour(in: place, parts[index...])
                return
            }
            place += "/\(part)"
        }
    }

    /// Says what is missing, as a sentence without the full stop.
    var words: String {
        let reason = directory.map { ", for there is no directory \($0)" } ?? ""
        return "\(path) does not exist\(reason)\(neighbour.map { "; there is \($0)" } ?? "")"
    }

    /// The nearest path below a directory that is there.
    private static func neighbour(in directory: String, _ parts: ArraySlice<String>) -> String? {
        guard let part = parts.first else { return directory }
        let names = (try? DiskFiles().names(inDirectory: directory.isEmpty ? "/" : directory)) ?? []
        guard names.count <= Limits.neighboursMax else { return nil }
        let name = names.contains(part) ? part : NearestName.nearest(to: part, among: names.sorted())
        return name.flatMap { neighbour(in: "\(directory)/\($0)", parts.dropFirst()) }
    }
}
