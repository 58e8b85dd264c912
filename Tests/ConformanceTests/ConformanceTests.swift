/// The standard's statements through the wire: bytes in, bytes or close out, on a simulated broker.
enum ConformanceTests {}
