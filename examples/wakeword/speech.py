"""Sentences that eSpeak NG speaks, as a recording of 16 kHz."""
import ctypes

import numpy as np

RATE = 16000
SYNCHRONOUS, CHARACTERS_UTF8, SPEED = 2, 1, 1


class Speaker:
    """The library of a wheel of espeakng-loader, which is unpacked in `folder`."""

    def __init__(self, folder):
        package = folder / "espeakng_loader"
        self.library = ctypes.CDLL(str(package / "libespeak-ng.so"))
        self.rate = self.library.espeak_Initialize(SYNCHRONOUS, 0, str(package).encode(), 0)
        self.pieces = []
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)
        self.callback = kind(self.take)  # kept, as the library does not
        self.library.espeak_SetSynthCallback(self.callback)

    def take(self, samples, count, _events):
        if count > 0:
            self.pieces.append(np.ctypeslib.as_array(samples, (count,)).copy())
        return 0

    def say(self, voice, text):
        """Samples of 16 kHz."""
        self.pieces.clear()
        if self.library.espeak_SetVoiceByName(voice.encode()) != 0:
            raise ValueError(f"no voice is named {voice}")
        self.library.espeak_SetParameter(SPEED, 150, 0)
        data = text.encode()
        self.library.espeak_Synth(ctypes.c_char_p(data), ctypes.c_size_t(len(data) + 1), 0, 1, 0, CHARACTERS_UTF8,
                                  None, None)
        samples = np.concatenate(self.pieces).astype(float)
        return resample(samples, len(samples) * RATE // self.rate)


def resample(samples, count):
    """The same sound in fewer samples, without the frequencies that these cannot hold."""
    spectrum = np.fft.rfft(samples)[:count // 2 + 1]
    return np.fft.irfft(spectrum, count) * count / len(samples)


def recording(speaker, sentences, seed, block):
    """Two seconds of a quiet room, then the sentences; whole blocks of whole numbers of 16 bits.

    The room's noise matters: digital silence has a logarithm that no recording reaches.
    """
    pieces = [np.zeros(2 * RATE)]
    for voice, text in sentences:
        pieces += [0.7 * speaker.say(voice, text), np.zeros(RATE * 6 // 10)]
    samples = np.concatenate(pieces)
    samples = samples[:len(samples) // block * block]
    samples += np.random.default_rng(seed).normal(0, 15, len(samples))
    return np.rint(np.clip(samples, -32768, 32767)).astype(np.float32)
