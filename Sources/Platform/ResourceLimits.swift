internal import Glibc

/// What the system allows this process.
public enum ResourceLimits {
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
