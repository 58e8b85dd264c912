/// What a layer made of the bytes that it was given.
struct Decoding {
    /// How many bytes it put into the target.
    var count = 0
    /// The end of the stream, after those bytes.
    var end: StreamEnd?
}

/// Why nothing more comes out of a layer.
enum StreamEnd {
    /// The peer said goodbye.
    case orderly
    /// The peer broke the layer's protocol, or was not let in.
    case refused(FilterRefusal)
}
