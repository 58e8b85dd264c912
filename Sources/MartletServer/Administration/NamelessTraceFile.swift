import Administration
import Platform

/// A trace's lines on the disk.
final class NamelessTraceFile: TraceFile {
    private let file: NamelessFile

    init(in directory: String) throws(SystemError) { file = try NamelessFile(in: directory) }

    func append(_ bytes: [UInt8]) -> Bool { (try? file.append(bytes)) != nil }

    func bytes(from offset: Int, count: Int) -> [UInt8] { (try? file.bytes(from: offset, count: count)) ?? [] }
}
