/* The page in German: English text -> German text. js/test/strings.node.test.js compares both.
 * SPDX-License-Identifier: MIT */
export const table = {
  'Reasoning …': 'Überlegt …',
  'Reasoned for {time}': 'Hat {time} überlegt',
  'Reasoning': 'Überlegung',
  'prompt {asked}, {kept} cached': 'Prompt {asked}, davon {kept} aus dem Cache',
  'prompt {asked}': 'Prompt {asked}',
  '{n} tokens/s': '{n} Tokens/s',
  'first token after {n} s': 'erstes Token nach {n} s',
  '1 token': '1 Token',
  '{n} tokens': '{n} Tokens',
  '{name} is too large: at most 500 KB': '{name} ist zu groß: höchstens 500 KB',
  '{name} is not a text file': '{name} ist keine Textdatei',
  'Remove {name}': '{name} entfernen',
  'Retry': 'Wiederholen',
  'Copy': 'Kopieren',
  'Edit': 'Bearbeiten',
  'Text': 'Text',
  'You': 'Sie',
  'Answer': 'Antwort',
  'Version before': 'Vorige Fassung',
  '{n} of {all}': '{n} von {all}',
  'Version after': 'Nächste Fassung',
  'Regenerate': 'Neu antworten',
  'The model no longer sees what is above: its memory is full.':
    'Was darüber steht, sieht das Modell nicht mehr: Sein Gedächtnis ist voll.',
  'The model sees a summary of what is above.':
    'Von dem, was darüber steht, sieht das Modell eine Zusammenfassung.',
  'Of what is above, the model sees only a summary of the beginning.':
    'Von dem, was darüber steht, sieht das Modell nur eine Zusammenfassung des Anfangs.',
  'Older messages are summed up …': 'Ältere Nachrichten werden zusammengefasst …',
  'Summarise our conversation so far in at most 100 words. Write only the summary.':
    'Fasse unser bisheriges Gespräch in höchstens 100 Wörtern zusammen. Schreibe nur die Zusammenfassung.',
  'If a conversation gets too long': 'Wenn ein Gespräch zu lang wird',
  'Leave out old messages': 'Alte Nachrichten weglassen',
  'Sum up old messages': 'Alte Nachrichten zusammenfassen',
  'maximum length reached': 'maximale Länge erreicht',
  'the memory for this conversation is full': 'das Gedächtnis für dieses Gespräch ist voll',
  'stopped': 'angehalten',
  'The model is answering.': 'Das Modell antwortet.',
  'Answer: {text}': 'Antwort: {text}',
  'The answer is complete, {n} tokens.': 'Die Antwort ist fertig, {n} Tokens.',
  'Copied': 'Kopiert',
  'Not allowed': 'Nicht erlaubt',
  'The conversation could not be kept': 'Das Gespräch konnte nicht gespeichert werden',
  'Close': 'Schließen',
  'Deleted: {title}': 'Gelöscht: {title}',
  'Undo': 'Rückgängig',
  'Without a title': 'Ohne Titel',
  'More: {title}': 'Mehr: {title}',
  'Rename': 'Umbenennen',
  'Delete': 'Löschen',
  'Title': 'Titel',
  'Save': 'Speichern',
  'Model': 'Modell',
  '{n} conversations imported': '{n} Gespräche importiert',
  '{name} could not be imported': '{name} konnte nicht importiert werden',
  'The file has no conversations that this page exported.':
    'In der Datei sind keine Gespräche, die diese Seite exportiert hat.',
  'Last answer: {text}': 'Letzte Antwort: {text}',
  'Back to the chat': 'Zurück zum Gespräch',
  'Models': 'Modelle',
  '{name} is ready.': '{name} ist bereit.',
  'Text for the model to continue': 'Text, den das Modell fortsetzt',
  'Ask something': 'Fragen Sie etwas',
  'Message': 'Nachricht',
  'Continues your text': 'Setzt Ihren Text fort',
  'Tools are on': 'Mit Werkzeugen',
  'Calculator': 'Rechner',
  'Clock': 'Uhr',
  '{n} billion': '{n} Milliarden',
  '{n} million': '{n} Millionen',
  '{done} of {all}': '{done} von {all}',
  '{time} left': 'noch {time}',
  '{size} from storage': '{size} aus dem Speicher',
  'free below the limit': 'frei bis zur Grenze',
  'layers that stay': 'Schichten, die bleiben',
  'KV cache': 'KV-Cache',
  'embedding': 'Einbettung',
  'Memory map: {parts}': 'Speicherplan: {parts}',
  'JSON schema': 'JSON-Schema',
  'The schema is not valid JSON.': 'Das Schema ist kein gültiges JSON.',
  'Fill in': 'Ausfüllen',
  'The model is reading …': 'Das Modell liest …',
  'Filled in. Check the values.': 'Ausgefüllt. Bitte prüfen Sie die Werte.',
  'Copy as JSON': 'Als JSON kopieren',
  'Fill in a form': 'Formular ausfüllen',
  'Form': 'Formular',
  'Contact': 'Kontakt',
  'Recipe': 'Rezept',
  'Appointment': 'Termin',
  'Other': 'Anderes',
  'Reading the prompt': 'Liest die Eingabe',
  'Loading {name}': '{name} wird geladen',
  'The rest of the file is still loading; you can already ask':
    'Der Rest der Datei lädt noch; Sie können schon fragen',
  '{done} of {total} tokens': '{done} von {total} Tokens',
  'layer {layer} of {layers}': 'Schicht {layer} von {layers}',
  'Opening …': 'Wird geöffnet …',
  'A newer version of this page is available': 'Es gibt eine neuere Fassung dieser Seite',
  'Its files do not match those already loaded.': 'Ihre Dateien passen nicht zu den schon geladenen.',
  'Reload': 'Neu laden',
  'Not a URL': 'Keine URL',
  '“{text}” is not the URL of a file': '„{text}“ ist keine URL einer Datei',
  'Choose another': 'Anderes wählen',
  'Download again': 'Erneut herunterladen',
  '{name} could not be loaded': '{name} konnte nicht geladen werden',
  'CPU, because {reason}': 'CPU, weil: {reason}',
  'GPU for {layers} of {all} layers: {name}': 'GPU für {layers} von {all} Schichten: {name}',
  '{n} parameters': '{n} Parameter',
  '{n} layers': '{n} Schichten',
  'all of them in memory': 'alle im Speicher',
  'streamed through memory': 'durch den Speicher geströmt',
  'one thread': 'ein Thread',
  '{n} threads': '{n} Threads',
  '{n} tokens of {all}': '{n} Tokens von {all}',
  'File': 'Datei',
  'Engine': 'Engine',
  'Memory': 'Speicher',
  'Server': 'Server',
  'on this device': 'auf diesem Gerät',
  'not here': 'nicht hier',
  'It is stored on this device.': 'Es ist auf diesem Gerät gespeichert.',
  '{size}, downloaded once and stored on this device.':
    '{size}, einmal heruntergeladen und auf diesem Gerät gespeichert.',
  '{size} file': 'Datei mit {size}',
  'needs {size} of memory': 'braucht {size} Speicher',
  'layers are streamed from the file': 'Schichten kommen laufend aus der Datei',
  '{size} freed': '{size} freigegeben',
  'It could not be deleted': 'Es konnte nicht gelöscht werden',
  'Delete {name}': '{name} löschen',
  'Delete all': 'Alle löschen',
  'of {date}': 'vom {date}',
  'Load': 'Laden',
  'Load {name}': '{name} laden',
  '; this site uses {used} of {all} allowed': '; diese Seite nutzt {used} von erlaubten {all}',
  '{size} of models{used}.': '{size} Modelle{used}.',
  'This link does not contain a valid URL': 'Dieser Link enthält keine gültige URL',
  'A link cannot load a model with {protocol}': 'Ein Link kann kein Modell über {protocol} laden',
  'Do not load': 'Nicht laden',
  'The model has ended': 'Das Modell wurde beendet',
  'Load it again': 'Erneut laden',
  'The package could not be loaded': 'Das Paket konnte nicht geladen werden',
  'This page works offline now.': 'Diese Seite funktioniert jetzt auch offline.',
  'This page is not available offline: {why}': 'Diese Seite ist offline nicht verfügbar: {why}',
  'to do': 'offen',
  'done': 'erledigt',
  '{n} characters': '{n} Zeichen',
  'Cancel': 'Abbrechen',
  'Send': 'Senden',
  '{n} tokens, shared by all answers': '{n} Tokens, für alle Antworten zusammen',
  '; the model was trained with {n}': '; trainiert wurde das Modell mit {n}',
  'The server cannot be reached': 'Der Server ist nicht erreichbar',
  'could not be loaded': 'konnte nicht geladen werden',
  'loaded': 'geladen',
  'unloaded': 'nicht geladen',
  'Chat': 'Gespräch',
  'Chat with {name}': 'Gespräch mit {name}',
  'Asking the server …': 'Der Server wird gefragt …',
  'The server does not respond.': 'Der Server antwortet nicht.',
  'libqsf: a language model': 'libqsf: ein Sprachmodell',
  'Talk with a language model.': 'Mit einem Sprachmodell sprechen.',
  'Under the hood': 'Unter der Haube',
  'Settings': 'Einstellungen',
  'New chat': 'Neues Gespräch',
  'Nothing found.': 'Nichts gefunden.',
  'This browser does not allow this page to keep anything: conversations are lost when it is closed.':
    'Dieser Browser lässt die Seite nichts speichern: Beim Schließen gehen Gespräche verloren.',
  'Import': 'Importieren',
  'Export all': 'Alle exportieren',
  'This link asks for a model from': 'Dieser Link möchte ein Modell laden von',
  ['The file is downloaded from there and stored on this device. Load it only if you trust the person who '
    + 'gave '
    + 'you the link.']: 'Die Datei wird von dort heruntergeladen und auf diesem Gerät gespeichert. Laden '
    + 'Sie sie '
    + 'nur, wenn Sie der Person vertrauen, von der Sie den Link haben.',
  'This page needs JavaScript.': 'Diese Seite braucht JavaScript.',
  'This server requires a key': 'Dieser Server verlangt einen Schlüssel',
  'The operator of the server can give you one. It is kept until this tab is closed.':
    'Sie bekommen ihn vom Betreiber des Servers. Er bleibt bis zum Schließen dieses Tabs gespeichert.',
  'The server did not accept this key.': 'Der Server hat diesen Schlüssel nicht angenommen.',
  'Continue': 'Weiter',
  'Chat with a model on this device': 'Mit einem Modell auf diesem Gerät sprechen',
  'Models of this server': 'Modelle dieses Servers',
  'It runs in this browser. What you write stays here: nothing is sent to a server.':
    'Es läuft in diesem Browser. Was Sie schreiben, bleibt hier: Nichts geht an einen Server.',
  'They run on the server, which sees what you write.':
    'Sie laufen auf dem Server; er sieht, was Sie schreiben.',
  'This browser has no WebAssembly, so no model can run here. Some security settings turn it off.':
    'Dieser Browser hat kein WebAssembly; ohne das läuft hier kein Modell. Manche Sicherheitseinstellungen '
    + 'schalten es ab.',
  ["This browser's WebAssembly has no SIMD (128-bit vectors), which the engine needs. Every browser "
    + 'since 2023 has it.']: 'Dem WebAssembly dieses Browsers fehlt SIMD (128-Bit-Vektoren). Jeder '
    + 'Browser seit 2023 hat '
    + 'es.',
  ['This page was not loaded over https: models run with one thread, nothing is stored, and it does not work '
    + 'offline.']: 'Diese Seite wurde nicht über https geladen: Modelle laufen mit einem Thread, nichts wird '
    + 'gespeichert, und offline funktioniert sie nicht.',
  'This page is not cross-origin isolated: models run with only one thread.':
    'Diese Seite ist nicht isoliert (cross-origin isolated): Modelle laufen nur mit einem Thread.',
  'This browser has no private file system for pages: models are downloaded each time.':
    'Dieser Browser hat kein privates Dateisystem für Seiten: Modelle werden jedes Mal heruntergeladen.',
  ['This browser allows no service worker here, perhaps because of a private window: the page does not work '
    + 'offline.']: 'Dieser Browser erlaubt hier keinen Service Worker, vielleicht wegen eines privaten '
    + 'Fensters: '
    + 'Die Seite funktioniert nicht offline.',
  'No model is offered here. Choose a file or a URL below.':
    'Hier wird kein Modell angeboten. Wählen Sie unten eine Datei oder eine URL.',
  'Start chatting': 'Gespräch beginnen',
  'Advanced': 'Erweitert',
  'From a URL': 'Von einer URL',
  'From this device': 'Von diesem Gerät',
  'Choose a file …': 'Datei wählen …',
  'or drop a QSF or GGUF file anywhere': 'oder eine QSF- oder GGUF-Datei hierher ziehen',
  'Memory limit': 'Speichergrenze',
  'Context': 'Kontext',
  'tokens': 'Tokens',
  'Threads': 'Threads',
  'Device': 'Gerät',
  'GPU, if possible': 'Automatisch',
  'Keys and values': 'Keys und Values',
  '32-bit': '32 Bit',
  '16-bit': '16 Bit',
  '8-bit': '8 Bit',
  '8 and 4-bit': '8 und 4 Bit',
  '4-bit': '4 Bit',
  'Stored on this device': 'Auf diesem Gerät gespeichert',
  'What can I help with?': 'Womit kann ich helfen?',
  'Small models make mistakes. Check what matters.':
    'Kleine Modelle machen Fehler. Prüfen Sie, was wichtig ist.',
  'Choose a model to continue this conversation.': 'Wählen Sie ein Modell, um dieses Gespräch fortzusetzen.',
  'Attach text files': 'Textdateien anhängen',
  'Use tools': 'Werkzeuge nutzen',
  'Mode': 'Modus',
  'Continue my text': 'Meinen Text fortsetzen',
  'Language': 'Sprache',
  "The browser's": 'Wie der Browser',
  'System message': 'Systemnachricht',
  'Temperature': 'Temperatur',
  'Maximum tokens': 'Höchstens Tokens',
  'Seed': 'Startwert',
  ['They apply from the next answer on and are stored in this browser. Temperature 0 always takes the '
    + 'most likely '
    + 'token.']: 'Sie gelten ab der nächsten Antwort und werden in diesem Browser gespeichert. Bei '
    + 'Temperatur 0 '
    + 'wird immer das wahrscheinlichste Token genommen.',
  'Reset': 'Zurücksetzen',
  'Done': 'Fertig',
  'Check the settings.': 'Prüfen Sie die Einstellungen.',
  'Raise the memory limit, or choose a shorter context.':
    'Erhöhen Sie die Speichergrenze, oder wählen Sie einen kürzeren Kontext.',
  ['Close other pages, set a memory limit (layers are then streamed from the file), or choose a smaller '
    + 'model.']:
    'Schließen Sie andere Seiten, setzen Sie eine Speichergrenze (Schichten kommen dann laufend aus der '
      + 'Datei), '
    + 'oder wählen Sie ein kleineres Modell.',
  'Check the URL and the connection. A file on another site can be read only if that site allows it (CORS).':
    'Prüfen Sie die URL und die Verbindung. Eine Datei einer anderen Website ist nur lesbar, wenn diese es '
    + 'erlaubt (CORS).',
  'The file has changed and cannot be read. Choose it again.':
    'Die Datei hat sich geändert und ist nicht lesbar. Wählen Sie sie erneut.',
  'The file is damaged or incomplete. Download it again.':
    'Die Datei ist beschädigt oder unvollständig. Laden Sie sie erneut herunter.',
  'QSF and GGUF files of many model families work, but not this one.':
    'QSF- und GGUF-Dateien vieler Modellfamilien funktionieren, diese nicht.',
  'Check the URL.': 'Prüfen Sie die URL.',
  'Check the name: hf:owner/model, or hf:owner/model:Q4_K_M.':
    'Prüfen Sie den Namen: hf:owner/model oder hf:owner/model:Q4_K_M.',
  ["Check the name. A private or gated model needs an access token, and a gated one also that you accept its "
    + "conditions on the hub's site."]: 'Prüfen Sie den Namen. Ein privates oder geschütztes Modell braucht '
    + 'ein Zugriffstoken; bei einem geschützten müssen Sie auch dessen Bedingungen auf der Seite des Hubs '
    + 'zustimmen.',
  'Files of this model': 'Dateien dieses Modells',
  'Access token': 'Zugriffstoken',
  'only for private and gated models': 'nur für private und geschützte Modelle',
  'The token is forgotten when this page is closed. Only the hub gets it.':
    'Das Token wird beim Schließen dieser Seite vergessen. Nur der Hub bekommt es.',
  'Asking the hub …': 'Der Hub wird gefragt …',
  'Enter a token': 'Token eingeben',
  'cannot be used': 'nicht verwendbar',
  'fits: needs {size} of memory': 'passt: braucht {size} Speicher',
  'does not fit: needs {size} of memory': 'passt nicht: braucht {size} Speicher',
  'https://… or hf:owner/model': 'https://… / hf:owner/model',
  'URL of a QSF or GGUF file, or the name of a model':
    'URL einer QSF- oder GGUF-Datei, oder der Name eines Modells',
  'The engine ended unexpectedly. If memory is short, a memory limit or fewer threads help.':
    'Die Engine endete unerwartet. Wenn der Speicher knapp ist, hilft eine Speichergrenze, oder weniger '
      + 'Threads.',
  'Write a shorter message, or load the model with a longer context.':
    'Schreiben Sie eine kürzere Nachricht, oder laden Sie das Modell mit längerem Kontext.',
  'Only files that this page has exported as JSON can be imported.':
    'Nur Dateien, die diese Seite als JSON exportiert hat, lassen sich importieren.',
  ['It may have stopped, or the network is down. The conversation is kept: retry when the server is '
    + 'running again.']:
    'Vielleicht läuft er nicht, oder es gibt kein Netz. Das Gespräch bleibt: Versuchen Sie es später erneut.',
  'The server is busy. Retry in a while.': 'Der Server ist beschäftigt. Versuchen Sie es später erneut.',
  "The server's time limit was reached. Ask for fewer tokens, or retry when it is less busy.":
    'Die Zeitgrenze des Servers ist erreicht. Verlangen Sie weniger Tokens, oder versuchen Sie es später.',
  "Write a shorter message, or ask the server's operator for a longer context (--ctx-size).":
    'Schreiben Sie eine kürzere Nachricht, oder bitten Sie den Betreiber um mehr Kontext (--ctx-size).',
  'Choose another model, or reload this page.':
    'Wählen Sie ein anderes Modell, oder laden Sie diese Seite neu.',
  ['The server only accepts known host names: open this page by its IP address, or ask the operator for '
    + '--allow-host.']: 'Der Server nimmt nur bekannte Hostnamen an: Öffnen Sie die Seite über die '
    + 'IP-Adresse, oder '
    + 'bitten Sie den Betreiber um --allow-host.',
  "Retry. If the error persists, the server's log may have details.":
    'Versuchen Sie es erneut. Bleibt der Fehler, steht vielleicht Näheres im Protokoll des Servers.',
  'The network is down at the moment. Models stored on this device work.':
    'Zurzeit gibt es kein Netz. Auf diesem Gerät gespeicherte Modelle funktionieren.',
  "Try again. If the error persists, the browser's console may have details.":
    'Versuchen Sie es erneut. Bleibt der Fehler, steht vielleicht Näheres in der Konsole des Browsers.',
  'Drop the model file': 'Modelldatei hier ablegen',
  'Conversations': 'Gespräche',
  'is being answered': 'wird beantwortet',
  'new answer': 'neue Antwort',
  'no answer': 'keine Antwort',
  '“{title}” has been answered.': '„{title}“ ist beantwortet.',
  '“{title}” could not be answered.': '„{title}“ konnte nicht beantwortet werden.',
  'Search': 'Suchen',
  'Search conversations': 'Gespräche durchsuchen',
  'Progress': 'Fortschritt',
  'none': 'keine',
  "the model's": 'des Modells',
  'all': 'alle',
  'Conversation': 'Gespräch',
  'More': 'Mehr',
  'Stop': 'Anhalten',
  'None': 'Keine',
  'off': 'aus',
  'random': 'zufällig',
  'Dictate': 'Diktieren',
  'Read aloud': 'Vorlesen',
  'Explain in simple words why the sky is blue.': 'Erkläre in einfachen Worten, warum der Himmel blau ist.',
  'Write a short thank-you note to a colleague.': 'Schreibe einer Kollegin ein kurzes Dankeschön.',
  'Give me three ideas for a quick dinner.': 'Nenne mir drei Ideen für ein schnelles Abendessen.',
  'Write a Python function that counts words.': 'Schreibe eine Python-Funktion, die Wörter zählt.',
  'Tell a story about a lighthouse in five sentences.':
    'Erzähle in fünf Sätzen eine Geschichte von einem Leuchtturm.',
  'What is the difference between weather and climate?': 'Was ist der Unterschied zwischen Wetter und Klima?',
};
