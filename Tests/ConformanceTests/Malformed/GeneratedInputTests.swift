import MQTTCodec
import MartletTestKit
import Testing

/// Malformed and illegal inputs that are made from tables: every packet broken in every way that has a rule.
@Suite struct GeneratedInputTests {
    struct Family: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let cases: [InputCase]
    }

    static let families: [Family] = [
        Family(testDescription: "flags of the fixed header", cases: GeneratedInputs.flags),
        Family(testDescription: "bodies cut short", cases: GeneratedInputs.truncated),
        Family(testDescription: "bodies too long", cases: GeneratedInputs.overlong),
        Family(testDescription: "packets before CONNECT", cases: GeneratedInputs.beforeConnect),
        Family(testDescription: "remaining lengths of five bytes", cases: GeneratedInputs.longLengths),
        Family(testDescription: "ill-formed texts", cases: GeneratedInputs.texts),
        Family(testDescription: "misplaced properties", cases: GeneratedInputs.misplacedProperties),
        Family(testDescription: "repeated properties", cases: GeneratedInputs.repeatedProperties),
        Family(testDescription: "cut properties", cases: GeneratedInputs.cutProperties),
        Family(testDescription: "cut User Properties", cases: GeneratedInputs.cutUserProperties),
        Family(testDescription: "unknown properties", cases: GeneratedInputs.unknownProperties),
        Family(testDescription: "reason codes", cases: GeneratedInputs.wrongReasonCodes),
        Family(testDescription: "flags of CONNECT", cases: GeneratedInputs.connectFlags),
        Family(testDescription: "protocol levels", cases: GeneratedInputs.levels),
        Family(testDescription: "subscription options", cases: GeneratedInputs.subscriptionOptions),
    ]

    @Test(arguments: families, [1, 4])
    func `each input gets the answer that the standard asks for`(family: Family, shards: Int) {
        InputCheck(shards: shards).run(family.cases)
    }

    @Test(arguments: families)
    func `each input that comes byte by byte gets the same answer`(family: Family) {
        InputCheck(shards: 1, delivery: .byteByByte).run(family.cases)
    }

    @Test func `there are at least 600 inputs that end the connection, each of its own bytes, in each of 3 and 5`() {
        let all = Self.families.flatMap(\.cases) + InputTable.names.flatMap(InputTable.read)
        let refused = all.filter { $0.answer.end != .open }
        #expect(refused.count >= 600)
        for versions in [[ProtocolVersion.v31, .v311], [.v5]] {
            let distinct = Set(refused.filter { versions.contains($0.version) }.map(\.key))
            #expect(distinct.count >= 600, "\(distinct.count) in \(versions)")
        }
    }
}

extension InputCase {
    /// What makes two inputs the same.
    fileprivate var key: [UInt8] { [version.rawValue, stage == .fresh ? 0 : 1] + frame }
}
