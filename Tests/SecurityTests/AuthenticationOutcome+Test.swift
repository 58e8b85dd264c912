import BrokerModel
import MQTTCodec

extension AuthenticationOutcome {
    var challenge: String? {
        if case .challenge(let data) = self { String(decoding: data, as: UTF8.self) } else { nil }
    }

    var refusal: ReasonCode? {
        if case .refused(let reason, _) = self { reason } else { nil }
    }

    var acceptedUser: String? {
        if case .accepted(let userName, _, _) = self { userName?.description } else { nil }
    }

    var acceptedData: String? {
        if case .accepted(_, let data?, _) = self { String(decoding: data, as: UTF8.self) } else { nil }
    }
}
