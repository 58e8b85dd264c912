import Glibc

/// `microbench [NAME…]`: measures what begins with one of the names, or everything.
@main
enum Microbench {
    static func main() {
        let wanted = Array(CommandLine.arguments.dropFirst())
        var meter = Meter(wanted: wanted)
        measureCodec(&meter)
        measureTree(&meter)
        measureShard(&meter)
        measureMeasures(&meter)
        measureClient(&meter)
        measureMailbox(&meter)
        measureTimers(&meter)
    }
}

/// Writes a line to standard output at once.
func say(_ line: String) {
    var text = line + "\n"
    text.withUTF8 { _ = write(1, $0.baseAddress, $0.count) }
}

/// Keeps the compiler from finding out that a value is not needed.
@inline(never)
func use<Value>(_ value: Value) {}
