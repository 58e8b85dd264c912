internal import Glibc

/// What the system allows this process.
public enum ResourceLimits {
    /// How many descriptors the process may have open.
    public static var fileDescriptors: Int { Int(clamping: SystemCall.descriptorLimit().rlim_cur) }

    /// The bytes that are free on the file system of a path for this process; nil where the kernel does not tell.
    public static func freeBytes(at path: String) -> UInt64? { try? SystemCall.freeBytes(path) }

    /// The same, and how many bytes the file system has in all.
    public static func diskBytes(at path: String) -> (free: UInt64, total: UInt64)? { try? SystemCall.diskBytes(path) }

    /// Raises the soft limit on open descriptors to the hard one, and returns what holds then. A refusal leaves it as it was.
    @discardableResult
    public static func raiseFileDescriptors() -> Int {
        var limit = SystemCall.descriptorLimit()
        guard limit.rlim_cur < limit.rlim_max else { return Int(clamping: limit.rlim_cur) }
        limit.rlim_cur = limit.rlim_max
        do throws(SystemError) {
            try SystemCall.setDescriptorLimit(limit)
        } catch {
            return Int(clamping: SystemCall.descriptorLimit().rlim_cur)
        }
        return Int(clamping: limit.rlim_cur)
    }
}
