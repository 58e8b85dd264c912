internal import Bytes
internal import Cryptography

/// The client's final message: `c=biws,r=nonce,p=proof`.
struct ScramClientFinal {
    let channelBinding: [UInt8]
    let nonce: String
    let proof: [UInt8]
    /// The message without `,p=…`, which is signed.
    let withoutProof: String

    /// Reads it; nil for what is not one.
    init?(_ data: [UInt8]) {
        guard data.count <= Limits.scramMessageBytesMax, let text = String(validating: data, as: UTF8.self) else { return nil }
        let attributes = ScramAttribute.parts(of: text[...])
        guard attributes.count >= 3, let last = attributes.last, attributes[0].hasPrefix("c="), attributes[1].hasPrefix("r="),
            last.hasPrefix("p="), attributes.dropFirst(2).dropLast().allSatisfy(ScramAttribute.isExtension),
            let binding = Base64.decode(attributes[0].dropFirst(2)), let proof = Base64.decode(last.dropFirst(2)),
            proof.count == HashFunction.sha256.digestCount
        else { return nil }
        channelBinding = binding
        nonce = String(attributes[1].dropFirst(2))
        self.proof = proof
        withoutProof = String(text[..<last.startIndex].dropLast())
    }
}
