import Configuration

/// Files of a test: paths and their contents. A directory is what stands before the last slash of a path.
struct MemoryFiles: FileSource {
    var files: [String: [UInt8]] = [:]

    init(_ texts: [String: String] = [:]) {
        files = texts.mapValues { Array($0.utf8) }
    }

    func contents(ofFile path: String, bytesMax: Int) throws(FileFailure) -> [UInt8] {
        guard let bytes = files[path] else { throw missing("open", path) }
        guard bytes.count <= bytesMax else {
            throw FileFailure(operation: "read", path: path, errorNumber: 0, reason: "It is larger than \(bytesMax) bytes")
        }
        return bytes
    }

    func names(inDirectory path: String) throws(FileFailure) -> [String] {
        let names = files.keys.filter { $0.hasPrefix(path + "/") }.map { String($0.dropFirst(path.count + 1)) }
        guard !names.isEmpty else { throw missing("opendir", path) }
        return names
    }

    private func missing(_ operation: String, _ path: String) -> FileFailure {
        FileFailure(operation: operation, path: path, errorNumber: 2, reason: "No such file or directory")
    }
}

/// Reads `text` as the main file `m.conf`.
func read(
    _ text: String, others: [String: String] = [:], environment: [String: String] = [:], ports: [UInt16] = []
) -> ConfigurationResult {
    var files = MemoryFiles(others)
    files.files["m.conf"] = Array(text.utf8)
    return ConfigurationReader(files: files, environment: environment).read(path: "m.conf", ports: ports)
}

extension ConfigurationResult {
    /// The diagnostics as the log shows them.
    var texts: [String] { diagnostics.map(\.description) }
}
