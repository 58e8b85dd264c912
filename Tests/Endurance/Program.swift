import CSQLite
import Glibc
import MartletClient
import Platform

/// At once, and whole: what is printed is promised.
func say(_ line: String) {
    let bytes = Array("\(line)\n".utf8)
    _ = write(1, bytes, bytes.count)
}

/// A client whose session outlives its connections, and that comes back quickly.
func settings(_ server: ServerAddress, _ name: String, store: String? = nil) -> ClientSettings {
    var settings = ClientSettings(server: server, clientIdentifier: name)
    settings.session = .kept(.seconds(3600))
    settings.reconnect = .exponential(from: .milliseconds(5), to: .milliseconds(50))
    settings.store = store.map { .file($0) }
    return settings
}

extension Duration {
    var seconds: Double { Double(components.seconds) + Double(components.attoseconds) / 1e18 }
}

/// Whether anybody holds the other end of the standard input.
struct OpenInput: Sendable {
    var value: Bool {
        var input = pollfd(fd: 0, events: Int16(POLLIN), revents: 0)
        return poll(&input, 1, 0) == 0
    }
}

/// What the process holds of the machine.
struct Stock {
    /// Bytes: given out by the allocator but for SQLite's, SQLite's, in memory now, in memory at most so far. SQLite's
    /// are mostly pages that it has read or written, up to 8 MB for each store.
    let heap, storeHeap, resident, peak: Int
    let descriptors: Int
    /// Nanoseconds for which the clients' thread has worked.
    let loopNanoseconds: Int

    static func take() -> Stock {
        let storeHeap = Int(sqlite3_memory_used())
        let status = lines("/proc/self/status")
        func bytes(_ name: String) -> Int {
            status.first { $0.hasPrefix(name) }.flatMap { Int($0.split { !$0.isNumber }.first ?? "") }.map { $0 * 1024 } ?? 0
        }
        return Stock(
            heap: ProcessMemory.heapBytes() - storeHeap, storeHeap: storeHeap, resident: bytes("VmRSS"), peak: bytes("VmHWM"),
            descriptors: names(in: "/proc/self/fd").count, loopNanoseconds: loopTime())
    }

    private static func loopTime() -> Int {
        for thread in names(in: "/proc/self/task") where lines("/proc/self/task/\(thread)/comm").first == "mqtt client" {
            let numbers = lines("/proc/self/task/\(thread)/schedstat").first?.split(separator: " ")
            return numbers?.first.flatMap { Int($0) } ?? 0
        }
        return 0
    }

    private static func names(in folder: String) -> [String] {
        guard let directory = opendir(folder) else { return [] }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            // The directory that is read is open as well.
            if !name.hasPrefix("."), Int32(name) != dirfd(directory) { names.append(name) }
        }
        return names
    }

    private static func lines(_ path: String) -> [String] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return [] }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 8192)
        let count = read(descriptor, &bytes, bytes.count)
        return String(decoding: bytes[..<max(0, count)], as: UTF8.self).split(separator: "\n").map(String.init)
    }
}
