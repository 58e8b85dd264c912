internal import Glibc
internal import Platform

/// Tells when a file's times change. A thread sleeps in the kernel for it.
final class FileWatch: Sendable {
    private let descriptor: Int32
    private let watch: Int32

    /// Nil where the kernel allows no more watches, or there is no such file.
    ///
    /// - Parameter changed: on the thread of the watch; what is done there keeps it from seeing the next change.
    init?(_ path: String, _ changed: @escaping @Sendable () -> Void) {
        let descriptor = inotify_init1(O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        let watch = inotify_add_watch(descriptor, path, UInt32(IN_ATTRIB))
        guard watch >= 0,
            // The thread closes the descriptor, so that nobody else's gets its number while it reads.
            (try? NamedThread.start(name: "client watch") { Self.run(descriptor, changed) }) != nil
        else {
            close(descriptor)
            return nil
        }
        (self.descriptor, self.watch) = (descriptor, watch)
    }

    /// Ends the thread: it reads that the watch is gone.
    deinit { inotify_rm_watch(descriptor, watch) }

    private static func run(_ descriptor: Int32, _ changed: () -> Void) {
        let size = 64 * (MemoryLayout<inotify_event>.size + 256)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: MemoryLayout<inotify_event>.alignment)
        defer {
            buffer.deallocate()
            close(descriptor)
        }
        while true {
            let count = read(descriptor, buffer.baseAddress, size)
            if count < 0, errno == EINTR { continue }
            guard count > 0, !isOver(UnsafeRawBufferPointer(rebasing: buffer[..<count])) else { return }
            changed()
        }
    }

    /// Whether one of these events says that the watch is gone, or the file.
    private static func isOver(_ events: UnsafeRawBufferPointer) -> Bool {
        var offset = 0
        while offset + MemoryLayout<inotify_event>.size <= events.count {
            let event = events.loadUnaligned(fromByteOffset: offset, as: inotify_event.self)
            if event.mask & UInt32(IN_IGNORED) != 0 { return true }
            offset += MemoryLayout<inotify_event>.size + Int(event.len)
        }
        return false
    }
}
