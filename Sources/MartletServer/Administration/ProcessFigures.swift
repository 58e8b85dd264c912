import Glibc
import Platform

/// What the kernel tells of this process.
enum ProcessFigures {
    /// Memory that is in use, in bytes; 0 where the kernel does not tell.
    static func residentBytes() -> UInt64 {
        guard let bytes = try? WholeFile.bytes(of: "/proc/self/statm", bytesMax: 4096) else { return 0 }
        let words = String(decoding: bytes, as: UTF8.self).split(separator: " ")
        return words.count > 1 ? (UInt64(words[1]) ?? 0) * UInt64(sysconf(Int32(_SC_PAGESIZE))) : 0
    }

    /// User and system time, in seconds.
    static func processorSeconds() -> Double {
        var usage = rusage()
        guard getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage) == 0 else { return 0 }
        func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1_000_000 }
        return seconds(usage.ru_utime) + seconds(usage.ru_stime)
    }

    /// What the host is called.
    static func hostName() -> String {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { buffer in
            guard let start = buffer.baseAddress, gethostname(start, buffer.count - 1) == 0 else { return "localhost" }
            buffer[buffer.count - 1] = 0
            return String(cString: start)
        }
    }

    /// Files and sockets that are open.
    static func openFiles() -> Int {
        guard let directory = opendir("/proc/self/fd") else { return 0 }
        defer { closedir(directory) }
        var count = 0
        while readdir(directory) != nil { count += 1 }
        // Itself, its parent, and the directory that is read.
        return max(0, count - 3)
    }
}
