public import Platform

/// What a write to a channel came to.
public enum WriteResult {
    /// That many bytes were taken, from the front: perhaps fewer than were given.
    case wrote(Int)
    /// None was taken; the channel will become writable.
    case wouldBlock
    /// The connection is broken: reset, timed out, or out of the kernel's memory.
    case failed(SystemError)
}
