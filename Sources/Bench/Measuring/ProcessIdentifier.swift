internal import Glibc

/// Who we are to the kernel.
enum ProcessIdentifier {
    static var own: Int32 { getpid() }
}
